"""Growing pools: adding negatives equals a fresh fit on all of them."""

import shutil

import numpy as np
import pytest

from lookalike import Collection, cli
from lookalike.encode.slem import Slem
from lookalike.errors import InputError

PIPELINE = "told = fourier() | pca(dim=6) | slem(lam=0.1)"


@pytest.fixture(scope="module")
def folder_of_collections(pictures, tmp_path_factory):
    """Two collections with a texture space that share one kind of picture."""
    folder = tmp_path_factory.mktemp("made")
    with Collection(folder / "own", create=True) as own:
        own.add(pictures / "fish", pictures / "house", recipes=["plain = fourier()"], workers=1)
        own.fit(PIPELINE)
    with Collection(folder / "other", create=True) as other:
        other.add(pictures / "night", pictures / "house", recipes=["plain = fourier()"], workers=1)
    return folder


@pytest.fixture
def own(folder_of_collections, tmp_path):
    shutil.copytree(folder_of_collections, tmp_path, dirs_exist_ok=True)
    with Collection(tmp_path / "own") as collection:
        yield collection


@pytest.fixture
def other(own, tmp_path):
    with Collection(tmp_path / "other") as collection:
        yield collection


def test_added_negatives_equal_a_fresh_fit_on_the_union(own, other):
    assert own.add_negatives("told", other.path) == 12  # the four shared pictures count once
    pca, slem = own.space("told").chain.transforms
    ids, X = own.vectors("plain")
    theirs, N = other.vectors("plain")
    union = np.concatenate([X, N[~np.isin(theirs, ids)]])
    fresh = Slem(lam=0.1).fit(pca.transform(union))
    assert slem.n_ == fresh.n_ == 12
    np.testing.assert_allclose(slem.mean_, fresh.mean_, atol=1e-12)
    np.testing.assert_allclose(slem.inverse_, fresh.inverse_, atol=1e-9)
    np.testing.assert_allclose(own.vectors("told")[1], fresh.transform(pca.transform(X)), atol=1 / 254)
    assert own.stats()["spaces"][1]["fitted_on"] == 8


def test_added_negatives_are_explained_and_added_only_once(own, other, pictures):
    own.add_negatives("told", other.path)
    before = own.vectors("told")[1]
    assert own.add_negatives("told", other.path) == 12
    np.testing.assert_array_equal(own.vectors("told")[1], before)
    found = own.explain(next((pictures / "night").iterdir()), k=100)
    assert sorted((push.collection is None) for push in found) == [False] * 3 + [True] * 8  # without itself
    with Collection(own.path) as again:  # everything is on the disk
        assert again.explain(next((pictures / "night").iterdir()), k=100) == found


def test_pictures_can_be_added_too(own, pictures):
    assert own.add_negatives("told", pictures / "stripes", workers=1) == 12
    assert own.fit("told") == {"told": 8}  # a fresh fit starts over
    assert own.space("told").chain.transforms[-1].n_ == 8


def test_only_a_linear_slem_at_the_end_accepts_more_negatives(own, other):
    own.fit("k = fourier() | kernelslem(rank=4)")
    own.fit("after = fourier() | slem(lam=0.1) | l2()")
    own.fit("flat = fourier() | l2()")
    for name in ("k", "after"):
        with pytest.raises(InputError, match=rf"last transform is slem.* lookalike fit {name} --negatives"):
            own.add_negatives(name, other.path)
    for name in ("flat", "plain"):
        with pytest.raises(InputError, match="does not use negatives"):
            own.add_negatives(name, other.path)
    with own._store.writer():
        own._spaces.create(["waits = fourier() | slem(lam=0.1)"])
    with pytest.raises(InputError, match="has no negative pool yet"):
        own.add_negatives("waits", other.path)


def test_the_command_line_adds_negatives(own, other, capsys):
    where = str(own.path)
    assert cli.run(["-c", where, "fit", "told", "--more-negatives", str(other.path)]) == 0
    assert capsys.readouterr().out == "told: the pool has 12 negatives.\n"
    assert cli.run(["-c", where, "fit", "told", "--more-negatives", str(other.path), "--json"]) == 0
    assert capsys.readouterr().out == '{"negatives": 12}\n'
    for words in (["told", "--calibrate"], [], ["told", "--negatives", where]):
        assert cli.run(["-c", where, "fit", *words, "--more-negatives", where]) == 2
        assert "--more-negatives needs exactly one fitted space" in capsys.readouterr().err
