"""Named pipelines: a feature, then transforms, as spec strings. Data only.

A recipe becomes a space of the same name in a collection. Recipes that begin with the same feature share its
vectors, so a second one costs a matrix product, not a second look at the pictures.
"""

RECIPES: dict[str, list[str]] = {
    "deep": ["efficientnet()", "pca(dim=256)", "l2()"],
    "thing": ["efficientnet()", "pca(dim=256, whiten=1.0)", "l2()"],
    "spoc": ["efficientnet(pool='spoc')", "pca(dim=256, whiten=1.0)", "l2()"],
    "rmac": ["efficientnet(pool='rmac')", "pca(dim=256)", "l2()"],
    "deepvlad": ["vlad(local='efficientnetmaps()')", "pca(dim=256)", "l2()"],
    "vlad": ["vlad()", "pca(dim=256)", "l2()"],
    "fisher": ["fisher()", "pca(dim=256)", "l2()"],
    "fisher256": ["fisher(k=256)", "pca(dim=256)", "l2()"],
    "classic": [
        "join(parts=['probabilitycolor()', 'laplaciancolor()', 'hsv()', 'hough()', 'fourier()'])",
        "pca(dim=150)",
    ],
    "color": ["color()"],
}

ABOUT: dict[str, str] = {
    "deep": "the same kind of picture: EfficientNet-Lite0, GeM, centred PCA",
    "thing": "the same thing again: as deep, but whitened",
    "spoc": "the same thing in the middle of the picture: sum pooling with a centre prior, whitened",
    "rmac": "the same kind of picture, where what matters may be small or off centre: regions of the map",
    "deepvlad": "for comparison: VLAD over the network's map, NetVLAD without its training; deep is better",
    "vlad": "the same thing or scene by its texture, where the network knows nothing: VLAD of rootSIFT",
    "fisher": "the same thing or scene by texture and colour, without a network: Fisher vectors of 16 Gaussians",
    "fisher256": "as fisher, finer and slower: 256 Gaussians, 128 KiB a picture on the disk",
    "classic": "colour, shape and texture as a whole; quick and small, needs no network",
    "color": "the same colours in the same places; the quickest, needs no network",
}

DEFAULT = ("deep", "thing")
"""What a new collection gets."""

FALLBACK = ("color",)
"""What it gets where the network's weights are not installed."""
