"""A collection of pictures: what users do with it, and the edges (command line, service, cluster) call.

The verbs, each in one module:

    adding         files to items and vectors: add, refresh            sources      which files exist; paths
    searching      search, where the match is, which negatives push    resolve      ids, paths, crops, filters to items
    sessions       feedback rounds, marks, simulation                  overview     pages, the map, counts, sizes
    classes        classes and their predictions                       labels       labels and hierarchies from files
    duplicates     groups of duplicates                                export       JSON, CSV, COCO, arrays
    fitting        fit spaces and features, keep them up to date       evaluation   cross-validation, quality of steps
    maintenance    verify, repair, compact                             calibration  choose options of a transform
    planning       which index fits into how much memory               costs        curves of time and memory

What they stand on:

    space          `Space`: the one object that decides which vectors are searched, learned from and described
    chain          `Chain`: a feature and fitted steps                 specs        chains as text
    indexes        indexes opened, cached and built                    describing   reading and describing pictures
    class_model    the classes in memory                               collection   `Collection` itself
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
