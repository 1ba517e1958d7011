"""Named pipelines: a feature, then transforms, as spec strings. Data only.

A recipe becomes a space of the same name in a collection. Recipes that begin with the same feature share its
vectors, so a second one costs a matrix product, not a second look at the pictures.
"""

RECIPES: dict[str, list[str]] = {
    "deep": ["efficientnet()", "pca(dim=256)", "l2()"],
    "thing": ["efficientnet()", "pca(dim=256, whiten=1.0)", "l2()"],
    "color": ["color()"],
}

ABOUT: dict[str, str] = {
    "deep": "the same kind of picture: EfficientNet-Lite0, GeM, centred PCA",
    "thing": "the same thing again: as deep, but whitened",
    "color": "the same colours in the same places; needs no network",
}

DEFAULT = ("deep", "thing")
"""What a new collection gets."""

FALLBACK = ("color",)
"""What it gets where the network's weights are not installed."""
