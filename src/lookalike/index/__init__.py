"""Indexes: vectors or codes with ids, and queries that search them.

    queries                          points, hyperplanes, centres, weighted sums
    flat                             `Flat`: exact search over vectors
    gpu_flat, gpu_scores, gpu_triton `GpuFlat`: the same on a GPU; its scores, in plain torch and as Triton kernels
    hamming                          `Hamming`: exact search over codes
    ann                              `Ann`, `Shortlisted`: approximate search with faiss, for millions of vectors
    leaves, leaf_codes, leaf_scores  `Leaves`: hyperplane queries on large collections; their structure and scores
    coded                            `Coded`: a shortlist by codes, re-ranked by vectors
    choice                           the index for a number of vectors; shortlist sizes; recall
    fsm_tree, m_tree                 `FsmTree`: the feature-space M-tree (library only)
    multi_hash                       `MultiHash`: multi-index hashing of codes (library only)
    kinds                            score the kinds of pictures, for searches by words
    neighbours                       `NeighbourGraph`: the nearest neighbours of every row
    layout                           positions in the plane: the map
    rerank                           k-reciprocal re-ranking of the first results
    exact                            base classes: rows under ids, and structures over them
    ids, topk                        the table from ids to rows; the k best of a stream of scores
    compiled, threads                shared numba code; a thread pool

All indexes have the same methods and, with effort="exact", return the same results. Public names are imported when they
are first used, because faiss (`ann`) and numba (`hamming`, `leaves`) take a second to load.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
