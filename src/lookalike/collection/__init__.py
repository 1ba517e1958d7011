"""A collection of pictures and its operations. The command line and the service import only this package.

Operations:

    adding          add and refresh: from files to items and vectors
    other_files     count the files of types that are not read
    picture_text    read the text in pictures
    searching       search, explain the influence of negatives
    locating        the part of a picture that matches
    words           search by words: kinds of pictures, the user's own words, example pictures
    likelihood      the probability that a result is right
    sessions        feedback: rounds, marks, the emulated user
    saved_searches  searches to run again, and what is new in them
    watching        folders to watch, for `Collection.watch`
    classes         classes, their predictions, labels from files
    label_formats   the formats of labels; label_readers and label_writers read and write them
    class_model     the classes in memory
    removals        undo of removals
    duplicates      groups of duplicates
    copies          what each picture of a group is, and which copies to mark
    fitting         fit spaces and features, keep them up to date
    neighbours      smoothed rows, which need the neighbours of each row
    vector_files    import vectors that were computed elsewhere
    clip            a space for a network of pictures and texts
    calibration     choose the options of a transform
    evaluation      cross-validate classes, measure the steps of a chain
    browsing        counts by facet, month and folder
    overview        pages of items, counts, sizes, speeds
    picture_map     the map: positions and classes of pictures
    export          JSON, CSV, COCO, arrays
    tables          Arrow, pandas, Parquet
    html            results, sessions, groups and classes in notebooks
    split           training, validation and test pictures
    maintenance     verify, repair, compact
    planning        recommend an index for a given memory, predict its cost

Building blocks:

    collection      `Collection`: one method per operation
    space           `Space`: chooses the vectors that are searched, fitted on and learned from
    chain, specs    a feature and its fitted steps; the same as text
    executor        where features are extracted and searches run: this machine or a cluster
    indexes         open, cache and build indexes
    picture_files   copies of pictures in a folder, or links to them
    picture_names   match ids and paths in files of labels or vectors to items
    resolve         from ids, paths, crops and filters to items, pixels and vectors
    reexports       names of lower layers for the command line and the service
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
