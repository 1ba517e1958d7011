"""Write the results of metric-learn on a small dataset to tests/golden/metric_learn.npz.

Run once, in a separate environment (metric-learn 0.7.0 needs scikit-learn below 1.8):
python tests/golden/make_metric_learn.py
"""

from pathlib import Path

import numpy as np

if __name__ == "__main__":
    from metric_learn import MMC, RCA

    random = np.random.default_rng(0)
    y = random.integers(0, 3, 60)
    X = random.normal(size=(60, 3)) @ random.normal(size=(3, 3)) + 2 * random.normal(size=(3, 3))[y]
    chunklets = np.where(np.arange(60) < 40, y, -1)
    pairs = random.integers(0, 60, (200, 2))
    alike = pairs[(y[pairs[:, 0]] == y[pairs[:, 1]]) & (pairs[:, 0] != pairs[:, 1])][:40]
    unlike = pairs[y[pairs[:, 0]] != y[pairs[:, 1]]][:40]
    signs = np.r_[np.ones(len(alike), int), -np.ones(len(unlike), int)]
    mmc = MMC(preprocessor=X, tol=1e-6, max_iter=2_000, max_proj=20_000).fit(np.concatenate([alike, unlike]), signs)
    np.savez_compressed(
        Path(__file__).parent / "metric_learn.npz",
        X=X,
        chunklets=chunklets,
        alike=alike,
        unlike=unlike,
        rca=RCA().fit(X, chunklets).get_mahalanobis_matrix(),
        mmc=mmc.get_mahalanobis_matrix(),
    )
