"""Pictures: from files to pixels.

sources      list the picture files of folders, archives, lists, patterns and URLs: `walk`, `locate`
archives     list and read the members of tar and zip archives
urls         find, list and read files at URLs
files        read the bytes of one file, within `Limits`
decoding     decode a file to upright RGB pixels: `read`; compute its id: `identify`
raw          recognize RAW files and read their preview
exif         read the metadata that a camera writes
workers      read many pictures in separate processes: `ReadPool`
text_reader  read the text in a picture: `TextReader`
same_photo   compare two pictures: the same photo, re-encoded, resized or cropped? `difference`
edited_copy  compare two pictures: mirrored, slightly rotated or overlaid? `edited_difference`
relation     which part of a picture a copy shows, and how it was edited: `relate`
thumbnails   find one picture inside another, at 32 x 32 pixels: `find_places`
preview      small copies of pictures, to show them
demo         synthetic pictures for the demo and for tests: `draw_folder`
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
