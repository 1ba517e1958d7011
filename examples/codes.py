"""Binary codes: 64 bits per picture. A search counts the bits that differ."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from lookalike import Collection, create, read
from lookalike.codes import hamming, unpack
from lookalike.images import draw_folder

if not Path("pictures").exists():
    draw_folder("pictures", per_kind=6)

kinds = ["fish", "beach", "night", "checkers"]
paths = [f"pictures/{kind}/{kind}-00{i}.jpg" for kind in kinds for i in range(4)]
with Collection("gallery.lookalike", create=True) as collection:
    collection.add("pictures")
    coder = create("coder", "itq(bits=64)").fit(collection.vectors("deep")[1])
    codes = coder.encode(collection.describe(paths, space="deep"))  # (16, 8) uint8

figure = plt.figure(figsize=(10, 5.6), layout="constrained")
left, middle, right = figure.subplots(1, 3, width_ratios=[0.09, 1, 0.62])
left.imshow(
    np.vstack([read(path, side=60).pixels[:60, :80] for path in paths]), aspect="auto"
)
middle.imshow(unpack(codes), cmap="gray_r", aspect="auto", interpolation="nearest")
middle.set_title("64 bits (8 bytes) per picture")
drawn = right.imshow(hamming(codes, codes), cmap="viridis_r", aspect="auto")
right.set_title("number of different bits per pair")
figure.colorbar(drawn, ax=right)
for panel in (left, middle, right):
    panel.set(xticks=[], yticks=[])
figure.savefig("codes.png", dpi=100)
