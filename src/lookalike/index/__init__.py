"""Indexes: vectors or codes with ids, searched by queries.

    queries                          what can be asked: points, hyperplanes, centres, weighted sums
    flat                             `Flat`: exact search over vectors
    hamming                          `Hamming`: exact search over codes
    ann                              `Ann`, `Shortlisted`: approximate search with faiss, for millions of vectors
    leaves, leaf_codes, leaf_scores  `Leaves`: hyperplane queries on large collections; its structure; its scores
    coded                            `Coded`: codes propose a shortlist, vectors put it in order
    choice                           which index for how many vectors; how much of the truth a search finds
    fsm_tree, m_tree                 `FsmTree`: the feature-space M-tree (library only)
    multi_hash                       `MultiHash`: multi-index hashing of codes (library only)
    exact                            what indexes have in common: rows under ids, and structures over them
    ids, topk                        the table from ids to rows; the k best of a stream of scores
    compiled, threads                numba code that indexes share; work shared among threads

All indexes take the same calls and, with effort="exact", give the same answers. A public name is imported when it is
first used: `ann` loads faiss, `hamming` and `leaves` load numba, which take a second.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
