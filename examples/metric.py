"""Learn a metric: held-out pictures before (PCA) and after (NCMML)."""

import matplotlib.pyplot as plt
import numpy as np

from lookalike import create
from lookalike.images import draw

kinds = ["face", "flower", "chart", "stripes", "balloons"]  # colours vary
random = np.random.default_rng(0)
y = np.repeat(kinds, 25)
color = create("feature", "color()")
X = np.vstack([color.extract([draw(kind, random)]) for kind in y])  # (125, d)
train = np.arange(125) % 25 < 15  # the other pictures are plotted

figure, panels = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
for panel, spec in zip(panels, ("pca(dim=2)", "ncmml(dim=2)"), strict=True):
    metric = create("transform", spec).fit(X[train], y[train])
    for number, kind in enumerate(kinds):
        places = metric.transform(X[~train & (y == kind)])  # (10, 2)
        panel.scatter(*places.T, s=45, color=plt.colormaps["tab10"](number), label=kind)
    panel.set(title=spec, xticks=[], yticks=[])
panels[0].legend(loc="best")
figure.savefig("metric.png", dpi=100)
