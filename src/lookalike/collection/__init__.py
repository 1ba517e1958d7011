"""A collection of pictures: what users do with it. The edges (command line, service, cluster) import only this.

What users do:

    adding          add and refresh: files to items and vectors
    searching       search, where the match is, which negatives push a picture away
    sessions        feedback: rounds, marks, the emulated user
    classes         classes, their predictions, labels from files         class_model   the classes in memory
    duplicates      groups of duplicates
    fitting         fit spaces and features, keep them up to date
    calibration     choose the options of a transform
    evaluation      cross-validate classes, measure the steps of a chain
    overview        pages of items, the map, counts, sizes, speeds
    export          JSON, CSV, COCO, arrays
    maintenance     verify, repair, compact
    planning        which index fits into how much memory, and what it costs

What that stands on:

    collection      `Collection` itself: one method per verb
    space           `Space`: decides which vectors are searched, learned from and described
    chain, specs    a feature and its fitted steps; the same as text
    indexes         indexes opened, cached and built
    resolve         ids, paths, crops and filters to items, pixels and vectors
    reexports       names of lower layers for the edges
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
