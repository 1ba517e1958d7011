"""Metrics: transforms of vectors, (n, d) to (n, D), most of which learn from labels.

Metrics trained by gradient descent:

- `ncmml`: rows near the mean of their class (`Ncmml`, `NcmmlDot`); `ncmc`: near one of several centroids (`Ncmc`).
- `lmnn`: rows whose nearest neighbours have their label (`Lmnn`).
- `wsabie`: a projection and a linear classifier in it (`Wsabie`, `Jscl`).
- `training`: the loop, the start and the early stopping that they share.

Metrics in closed form, or as convex problems:

- `linear`: Fisher's discriminants, ridge regression, inverse covariance (`Fda`, `Ridge`, `InverseCovariance`).
- `chunklets`: covariances inside groups of rows (`Rca`, `Dca`).
- `semidefinite`: pairs and triplets of rows (`Mmc`, `DmlEig`, `Sdpm`).

Metrics of sets of local descriptors (`sets`), by a mixture of Gaussians:

- `dfk`: the discriminative Fisher kernel (`Dfk`); `dfk_pictures`: the same as a feature of pictures (`DfkPictures`);
  `fisher_scores`: the scores that both are built on.
- `fess`: free energy scores and posterior divergence, without labels (`Fess`, `Pd`).

What they share: `labels` (encoding labels, holding rows out), `measures` (validation scores), `rows` (rows from any
source), `pq_rows` (rows compressed in memory, `PqRows`; library only).

Each public name is imported when it is first used: scikit-learn takes a second to load.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
