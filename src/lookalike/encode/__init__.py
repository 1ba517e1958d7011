"""Encoders: transforms of vectors, (n, d) to (n, D), that are fitted without labels.

- `whiten`: PCA with optional whitening (`PCA`) and rows of unit length (`L2`).
- `slem`: linear SLEM, each row as the ridge classifier that separates it from a pool of negatives (`Slem`).
- `kernel_slem`: the same in the feature space of a kernel (`KernelSlem`), the query that compares such rows
  (`SlemQuery`), and low-rank factors of kernel matrices.
- `esvm`: one linear SVM per row (`Esvm`), the baseline of SLEM. Library only.
- `calibration`: the choice of an encoder's parameters, without labels (`calibrate`) or with (`calibrate_labels`).
- `check`: the input checks that encoders, metrics, codes and classifiers share.

Each public name is imported when it is first used: scikit-learn takes a second to load.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
