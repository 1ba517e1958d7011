"""What the paper's tables have for the rows of the bench `hashing`, and about how long these take.

Cevikalp, Elmas & Ozkan 2017 (tsvm-hashing), Tables 4 and 5; Euclid's figures are in the text beside them.
"""

PAPER: dict[str, dict[str, tuple[float, ...]]] = {
    "mnist": {
        "tsvm": (87.68, 89.15, 89.07, 89.13),
        "sdh": (81.29, 85.37, 86.10, 86.26),
        "fasthash": (95.96, 96.32, 96.52, 96.70),
        "lsh": (72.15, 74.40, 79.30, 82.43),
        "sh": (70.44, 72.28, 73.87, 74.15),
        "shd": (67.86, 74.06, 75.98, 76.58),
        "sklsh": (31.36, 47.12, 63.04, 74.08),
        "itq": (79.55, 83.37, 85.50, 86.23),
        "pca-rr": (67.91, 75.38, 79.16, 83.05),
        "pq": (85.40, 85.40, 85.20, 85.40),
        "euclidean": (85.95,) * 4,
    },
    "cifar10-fisher": {
        "tsvm": (46.74, 51.37, 53.94, 55.10),
        "sdh": (31.66, 33.52, 34.62, 35.36),
        "fasthash": (44.61, 48.73, 51.84, 53.78),
        "lsh": (19.43, 20.57, 20.53, 21.57),
        "sh": (19.60, 20.43, 21.44, 21.86),
        "shd": (19.47, 21.91, 24.09, 25.77),
        "sklsh": (11.10, 11.38, 11.93, 12.68),
        "itq": (24.59, 26.03, 27.34, 28.05),
        "pca-rr": (23.07, 24.53, 25.83, 36.76),
        "pq": (24.30, 23.80, 22.90, 22.00),
        "euclidean": (28.22,) * 4,
    },
    "cifar10-deep": {
        "tsvm": (79.97, 81.89, 82.45, 82.79),
        "sdh": (83.05, 83.59, 83.77, 83.83),
        "fasthash": (84.62, 84.89, 85.07, 85.17),
        "lsh": (73.98, 74.87, 75.56, 76.40),
        "sh": (65.74, 67.15, 65.04, 60.52),
        "shd": (65.41, 66.38, 64.83, 64.21),
        "sklsh": (40.79, 56.33, 64.17, 67.85),
        "itq": (80.78, 81.27, 81.86, 82.05),
        "pca-rr": (74.19, 77.15, 78.46, 79.15),
        "pq": (79.88, 80.30, 80.40, 80.65),
        "euclidean": (76.90,) * 4,
    },
}
"""Tables 5 and 4, in percent, by bits."""
UNLIKE = {
    "cifar10-fisher": "we have a fifth of its 50,000 pictures, and Fisher vectors of 4,096 numbers for its 16,384",
    "cifar10-deep": "its network was trained on CIFAR-10 itself, ours was not, and we have a fifth of its pictures",
}
A_BIT = {
    "mnist": {"tsvm": 3.3, "tsvm-hinge": 3.0, "fasthash": 1.9},
    "cifar10-fisher": {"tsvm": 4.4, "tsvm-hinge": 5.0, "fasthash": 2.6},
    "cifar10-deep": {"tsvm": 0.9, "tsvm-hinge": 1.0, "fasthash": 1.2},
}
A_CODER = {"mnist": 20.0, "cifar10-fisher": 30.0, "cifar10-deep": 8.0}
A_SET = {"mnist": 5.0, "cifar10-fisher": 120.0, "cifar10-deep": 870.0}
"""About how many seconds learning takes, of a bit of slow coders and of all of another, and reading the pictures."""
