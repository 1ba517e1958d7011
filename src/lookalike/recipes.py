"""Recipes: named pipelines of a feature and transforms, as spec strings.

A recipe becomes a space of the same name in a collection. Recipes that start with the same feature share its vectors,
so a second one only costs a matrix product.
"""

RECIPES: dict[str, list[str]] = {
    "deep": ["efficientnet()", "pca(dim=256)", "l2()", "smooth(k=5, alpha=3)"],
    "deep-plain": ["efficientnet()", "pca(dim=256)", "l2()"],
    "deep-views": ["efficientnet(views=2)", "pca(dim=256)", "l2()", "smooth(k=5, alpha=3)"],
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
    "deep": "the same kind of picture: EfficientNet-Lite0, GeM, centred PCA, averaged with the nearest neighbours",
    "deep-plain": "like deep, without smoothing: the vector of a picture does not depend on the others",
    "deep-views": "like deep, from two views of each picture: finds more, and takes longer to extract",
    "thing": "the same object: like deep, but whitened",
    "spoc": "the same object in the centre of the picture: sum pooling with a centre prior, whitened",
    "rmac": "the same kind of picture, if the subject is small or off centre: regional max pooling",
    "deepvlad": "for comparison: VLAD of the network's feature map (untrained NetVLAD); deep is better",
    "vlad": "the same object or scene by texture, for domains unknown to the network: VLAD of rootSIFT",
    "fisher": "the same object or scene by texture and colour, without a network: Fisher vectors, 16 Gaussians",
    "fisher256": "like fisher, finer and slower: 256 Gaussians, 128 KiB per picture on disk",
    "classic": "overall colour, shape and texture; fast and small, needs no network",
    "color": "the same colours in the same places; fastest, needs no network",
}

FORMER: dict[str, list[str]] = {"deep": ["efficientnet()", "pca(dim=256)", "l2()"]}
"""Pipelines of recipes in version 0.1. A fit of such a space uses the current pipeline."""

DEFAULT = ("deep", "thing")
"""Recipes of a new collection."""

FALLBACK = ("color",)
"""Recipes of a new collection if the network's weights are not installed."""
