"""The files of a collection. `Store` opens the directory and gives access to everything else.

    directory     opening, locking, transactions, the layout of the directory: `Store`
    items         pictures, their paths and sources, filters: `store.items`
    word_tables   search of the tables of words, such as those in paths
    vectors       spaces and their vectors: `store.vectors`
    segments      the files of vectors: listed, opened as memory maps, merged
    npy_files     arrays in .npy files, and digests of files
    derived       index structures and cached results, which can be recomputed
    models        fitted components in one file: `save`, `load`
    judgements    labels, and pictures that are not duplicates: `store.judgements`
    classes       classes and predictions: `store.judgements.classes`, `store.judgements.predictions`
    actions       the history of changes, and their undo: `store.judgements.actions`
    sessions      feedback sessions: `store.judgements.sessions`
    saved_searches  saved searches: `store.judgements.saved_searches`
    jobs          the jobs of the service: `JobLedger`
    schema        the tables of all databases, as migrations
    database      SQLite connections, transactions and errors
    backup        verified backups, created while other processes write
    repair        repair of damaged databases
    sharing       vectors, models and indexes on a shared file system

The store handles arrays, ids and JSON. It does not know what vectors mean or how they are searched.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
