"""What the paper's Table 1 has for the rows of the bench `slem`, and about how long these take.

Rezende et al., CVPR 2017 (slem), Table 1.
"""

PAPER: dict[str, dict[str, float]] = {
    "vlad": {"cosine": 72.7, "pcaw": 75.5, "lda": 54.7, "esvm": 77.5, "linear": 78.0}
    | {"gaussian-16": 76.8, "gaussian-32": 77.4, "gaussian-full": 78.1}
    | {"poly-16": 76.9, "poly-32": 77.3, "poly-full": 78.1},
    "deep": {"cosine": 76.5, "pcaw": 81.7, "lda": 82.2, "esvm": 84.0, "linear": 82.3}
    | {"gaussian-16": 80.3, "gaussian-32": 81.7, "gaussian-full": 86.2}
    | {"poly-16": 82.3, "poly-32": 82.4, "poly-full": 86.3},
}
"""Table 1, Holidays, in percent: VLAD, and SPoC, the nearest to what our network gives."""
UNLIKE = {
    "vlad": "the paper's set is Holidays, with 15,000 negatives; ours is ukbench2000, with 1,000",
    "deep": "the paper's set is Holidays and its feature SPoC of another network; ours are ukbench2000 and GeM",
}
SECONDS = {"cosine": 20.0, "pcaw": 15.0, "lda": 5.0, "esvm": 300.0, "linear": 25.0}
"""About how long a row takes on ukbench2000; kernels take 35 seconds."""
