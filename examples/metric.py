"""A metric that learns: before (PCA) and after (NCMML), pictures it was not shown."""

import matplotlib.pyplot as plt
import numpy as np

from lookalike import create
from lookalike.images import draw

kinds = ["face", "flower", "chart", "stripes", "balloons"]  # in changing colours
random = np.random.default_rng(0)
y = np.repeat(kinds, 25)
color = create("feature", "color()")
X = np.vstack([color.extract([draw(kind, random)]) for kind in y])  # (125, d)
shown = np.arange(125) % 25 < 15  # learned from; the others are drawn

figure, panels = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
for panel, spec in zip(panels, ("pca(dim=2)", "ncmml(dim=2)"), strict=True):
    metric = create("transform", spec).fit(X[shown], y[shown])
    for number, kind in enumerate(kinds):
        places = metric.transform(X[~shown & (y == kind)])  # (10, 2)
        panel.scatter(*places.T, s=45, color=plt.colormaps["tab10"](number), label=kind)
    panel.set(title=spec, xticks=[], yticks=[])
panels[0].legend(loc="best")
figure.savefig("metric.png", dpi=100)
