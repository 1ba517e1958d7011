"""Codes: vectors in a few bytes each.

bits          pack, unpack and count bits; Hamming distances
queries       how codes are scored: (weighted) Hamming, spherical Hamming, a table per byte
signs         base classes of coders whose bits are signs of scores

Coders without labels:

hyperplanes   Lsh, PcaRR, Itq: sides of hyperplanes
waves         Spectral, Sklsh: signs of cosine waves
spherical     Spherical: bits that tell whether a row is inside a ball
pq            Pq: product quantisation, one byte per part of a row

Coders that learn from labels:

tsvmh         Tsvmh, TsvmPlanes: hyperplanes between groups of classes, at the nodes of class trees
robust_tsvm   RobustTsvm: the SVM that finds these hyperplanes, also from unlabelled rows
fasthash      FastHash: boosted trees
sdh           Sdh: supervised discrete hashing
labels        convert labels to class numbers
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
