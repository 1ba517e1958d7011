"""Metrics: transforms of vectors, (n, d) to (n, D), most of which learn from labels.

Metrics trained by gradient descent:

- `ncmml`: rows are close to the mean of their class (`Ncmml`, `NcmmlDot`).
- `ncmc`: rows are close to one of several centroids of their class (`Ncmc`).
- `lmnn`: the nearest neighbours of a row have its label (`Lmnn`).
- `wsabie`: a projection together with a linear classifier (`Wsabie`, `Jscl`).
- `training`: the training loop, initialisation and early stopping that these share.

Metrics with a closed-form solution, or learned by convex optimisation:

- `linear`: Fisher's linear discriminants, ridge regression, inverse covariance (`Fda`, `Ridge`, `InverseCovariance`).
- `chunklets`: from covariances within groups of rows (`Rca`, `Dca`).
- `semidefinite`: from pairs and triplets of rows (`Mmc`, `DmlEig`, `Sdpm`).

Metrics for sets of local descriptors (`sets`), based on a mixture of Gaussians:

- `dfk`: the discriminative Fisher kernel (`Dfk`); `dfk_pictures`: the same as a feature of pictures (`DfkPictures`);
  `fisher_scores`: the scores that both are built on.
- `fess`: free energy scores and posterior divergence, without labels (`Fess`, `Pd`).

Shared modules: `labels` (label encoding, held-out rows), `measures` (validation scores), `rows` (rows from any
source), `pq_rows` (rows compressed in memory, `PqRows`; library only).

Public names are imported on first use, because importing scikit-learn takes a second.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
