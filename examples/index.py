"""Search an index: nearest to a point, and nearest to a decision boundary."""

import matplotlib.pyplot as plt
import numpy as np

from lookalike.index import Flat, HyperplaneQuery, PointQuery

random = np.random.default_rng(0)
centres = random.uniform(-4, 4, (12, 2))[random.integers(12, size=3_000)]
X = (centres + random.normal(0, 0.5, (3_000, 2))).astype(np.float32)
index = Flat()
index.add(np.arange(len(X)), X)

example = np.array([[1.0, -1.0]], np.float32)
marks = np.array([[2.0, 2.0], [1.0, -1.0], [-2.0, 0.0], [0.0, 3.5]], np.float32)
signs = [1.0, 1.0, -1.0, -1.0]
boundary = HyperplaneQuery(marks, signs, 0.0, kernel="gaussian", gamma=0.1)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
for panel, query, k in ((left, PointQuery(example), 30), (right, boundary, 60)):
    hits = index.search(query, k)
    panel.scatter(*X.T, s=3, color="#bbbbbb")
    panel.scatter(*X[hits.ids[0]].T, s=14, color="#2f6fde", label=f"{k} best")
    panel.set(xticks=[], yticks=[])
left.scatter(*example.T, s=120, marker="*", color="#e07b00", label="example")
left.set_title("search: nearest to a point")
right.scatter(*marks[:2].T, s=90, marker="P", color="#2e9e4f", label="positive")
right.scatter(*marks[2:].T, s=90, marker="X", color="#c8372d", label="negative")
right.set_title("feedback: nearest to the boundary")
for panel in (left, right):
    panel.legend(loc="lower left", framealpha=0.9)
figure.savefig("index.png", dpi=100)
