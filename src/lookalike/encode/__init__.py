"""Encoders: transforms of vectors, (n, d) to (n, D), that are fitted without labels.

- `whiten`: PCA with optional whitening (`PCA`) and rows of unit length (`L2`).
- `smooth`: averages of stored rows with their nearest neighbours (`Smooth`).
- `text`: vectors of texts by the user's own network, in the space of its pictures (`Text`).
- `slem`: linear SLEM, each row as the ridge classifier that separates it from a pool of negatives (`Slem`).
- `kernel_slem`: the same in the feature space of a kernel (`KernelSlem`), the query that compares such rows
  (`SlemQuery`), and low-rank factors of kernel matrices.
- `esvm`: one linear SVM per row (`Esvm`), the baseline of SLEM. Library only.
- `calibration`: choosing an encoder's parameters without labels (`calibrate`) or with labels (`calibrate_labels`).
- `check`: input checks shared by encoders, metrics, codes and classifiers.

Public names are imported when they are first used, because scikit-learn takes a second to load.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
