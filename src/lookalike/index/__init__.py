"""Vectors with ids, searched by queries.

In: `add(ids, X)` and queries (see `queries`). Out: `Hits`, the same ones from every index that is asked to be exact.
Import `flat` or `ann` by name: faiss is loaded only by those who ask for it.
"""
