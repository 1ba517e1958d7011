"""What can be compared though the pictures are others: the order of methods; and what cannot be run at all.

In: cells. Out: whether the order that a paper found is found here, too. `ABSENT` lists the parts of the papers' tables
that the data at hand do not allow, and why.
"""

from collections.abc import Sequence
from typing import NamedTuple

from lookalike_bench.tables import SMALLER, Cell


class Claim(NamedTuple):
    """Rows of a column, the worst first, as a paper has them."""

    bench: str
    column: str
    rows: tuple[str, ...]
    where: str


class Found(NamedTuple):
    """What became of a claim: "holds", "within intervals" or "does not hold", and in figures."""

    kind: str
    text: str


class Absent(NamedTuple):
    """A part of a paper that is not run."""

    bench: str
    where: str
    why: str


_TOP5 = "corel5k-fisher/128-top5"
CLAIMS = (
    Claim("slem", "ukbench2000/deep", ("cosine", "pcaw", "linear", "poly-full"), "slem, Table 1"),
    Claim("slem", "ukbench2000/vlad", ("cosine", "pcaw", "linear", "poly-full"), "slem, Table 1"),
    Claim("slem", "ukbench2000/deep", ("poly-16", "poly-32", "poly-full"), "slem, Fig. 2"),
    Claim("slem", "ukbench2000/deep-ms", ("esvm", "linear"), "slem, Fig. 1"),
    Claim("feedback", "coil100-classic/precision-10", ("gaussian-exact", "laplace-exact"), "fsm-tree, Fig. 5"),
    Claim("feedback", "coil100-classic/precision-10", ("gaussian-exact", "angular-exact"), "fsm-tree, Fig. 5"),
    Claim("feedback", "coil100-classic/precision-10", ("laplace-pac", "laplace-exact"), "fsm-tree, Fig. 5"),
    Claim("feedback", "coil100-classic/scored-10", ("laplace-exact", "laplace-pac"), "fsm-tree, Fig. 4"),
    Claim("feedback", "coil100-classic/scored-10", ("laplace-pac", "gaussian-pac"), "fsm-tree, Fig. 4"),
    Claim("ncm", _TOP5, ("ncm-pca", "ncm-invcov", "ncm-fda", "ncmml", "ncmc-10"), "ncm, Tables 3 and 4"),
    Claim("ncm", _TOP5, ("knn-pca", "lmnn-10", "lmnn-all", "dynamic-10"), "ncm, Table 2"),
    Claim("ncm", _TOP5, ("ncmml", "ncmc-test", "ncmc-10"), "ncm, Table 4"),
    Claim("ncm", "corel5k-deep/new-1", ("ncmml", "prior-ncmml"), "ncm, Fig. 9"),
    Claim("ncm", "ukbench2000-fisher/4r4-128", ("ncm-pca", "ncm-l2", "ncmml"), "ncm, Table 7"),
    Claim("hashing", "mnist/64", ("lsh", "itq", "tsvm", "fasthash"), "tsvm-hashing, Table 5"),
    Claim("hashing", "cifar10-fisher/64", ("lsh", "itq", "sdh", "fasthash", "tsvm"), "tsvm-hashing, Table 4"),
    Claim("hashing", "cifar10-deep/64", ("lsh", "itq", "tsvm", "sdh", "fasthash"), "tsvm-hashing, Table 4"),
    Claim("dfk", "corel1k", ("euclidean", "lmnn", "pd", "dfk"), "dfk, Table 1"),
    Claim("dfk", "corel5k", ("euclidean", "lmnn", "pd", "dfk"), "dfk, Table 2"),
)
_LONG = "takes longer than three hours allow"
ABSENT = (
    Absent(
        "slem", "Table 1, Oxford5k and Oxford105k; AlexNet and NetVLAD", "we have neither the sets nor the networks"
    ),
    Absent("slem", "Table 2", "state of the art on Holidays and Oxford5k, which we do not have"),
    Absent("slem", "Fig. 1 and 3, pools of up to 60,000 negatives", "our sets have 1,000 of the same kind"),
    Absent("feedback", "Fig. 6 and 7, ALOI", "we do not have its 110,250 pictures"),
    Absent("ncm", "Table 3, 1,024 numbers and full length of learned metrics", _LONG),
    Absent("ncm", "Tables 3 and 5, features of 64K numbers", _LONG),
    Absent("ncm", "Table 6", "we do not have ImageNet-10K"),
    Absent("ncm", "Table 7, Holidays", "we do not have the set"),
    Absent("hashing", "Table 1, CIFAR-100", "we do not have the set"),
    Absent("hashing", "Table 2, ImageCLEF 2013", "its corrected labels were not published"),
    Absent("hashing", "Table 3, NUS-WIDE", "we do not have the set"),
    Absent("hashing", "Table 4, five deep networks of others", "figures that the paper took from elsewhere"),
    Absent("hashing", "Fig. 5, precision along the ranking", "a drawing; ours: columns `…-precision-N`, by name"),
    Absent("dfk", "Table 1, eight of ten classes", "our ten classes of Corel are others"),
    Absent("dfk", "Table 3, Caltech101", "we do not have the set"),
    Absent("dfk", "Table 4, NNMF", "we have no such method, nor MIRFlickr: `corel5k-words` stands for it"),
)


def judge_order(claim: Claim, cells: Sequence[Cell]) -> Found | None:
    """Whether each row is better than the one before it; None where one of them was not run."""
    at = {cell.row: cell for cell in cells if (cell.bench, cell.column) == (claim.bench, claim.column)}
    if not all(row in at for row in claim.rows):
        return None
    shown = " → ".join(f"{row} {at[row].value:.3f}" for row in claim.rows)
    kinds = [_pair(at[worse], at[better]) for worse, better in zip(claim.rows, claim.rows[1:], strict=False)]
    kind = next((kind for kind in ("does not hold", "within intervals") if kind in kinds), "holds")
    return Found(kind, shown)


def _pair(worse: Cell, better: Cell) -> str:
    if better.value == worse.value or (better.value > worse.value) == (better.measure not in SMALLER):
        return "holds"
    apart = better.high < worse.low or worse.high < better.low
    return "does not hold" if apart else "within intervals"
