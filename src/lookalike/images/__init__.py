"""Pictures: from files to pixels.

sources      which picture files are in a folder, an archive, a list or a pattern? `walk`, `locate`
archives     the members of tar and zip archives, read in place
files        the bytes of one file, within `Limits`
decoding     a file's upright RGB pixels: `read`; its id: `identify`
workers      reading many pictures in separate processes: `ReadPool`
same_photo   are two pictures the same photo, re-encoded, resized or cropped? `difference`
demo         drawn pictures for the demo and for tests: `draw_folder`
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
