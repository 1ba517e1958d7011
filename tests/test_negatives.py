"""Negative pools from outside the collection."""

import numpy as np
import pytest

from lookalike import Collection
from lookalike.encode.slem import Slem
from lookalike.errors import InputError, SourceError

pytestmark = pytest.mark.usefixtures("read_here")

KINDS = ("fish", "house", "flower")


@pytest.fixture
def filled(collection, pictures):
    """A collection of a few kinds of pictures, with a colour space."""
    collection.add(*(pictures / kind for kind in KINDS), recipes=["plain = color()"])
    return collection


@pytest.fixture
def other(pictures, tmp_path):
    """A collection of other kinds of pictures."""
    with Collection(tmp_path / "other", create=True) as made:
        made.add(pictures / "night", pictures / "stripes", recipes=["color"])
        yield made


def test_a_spec_with_only_a_transform_creates_a_space_on_the_first_feature(filled):
    assert filled.fit("slem(lam=0.01)") == {"slem": 12}
    ids, X = filled.vectors("plain")
    np.testing.assert_allclose(filled.vectors("slem")[1], Slem(lam=0.01).fit(X).transform(X), atol=1 / 254)
    assert filled.search(int(ids[0]), space="slem", k=1)[0].id == ids[0]
    assert filled.fit("slem") == {"slem": 12}  # fit by name, now that the space exists
    assert filled.fit("own = color() | pca(dim=4) | slem(lam=0.1)") == {"own": 12}
    assert filled.vectors("own")[1].shape == (12, 4)


@pytest.mark.parametrize("kind", ["collection", "folder"])
def test_negatives_come_from_another_collection_or_from_pictures(filled, other, pictures, tmp_path, kind):
    source = other.path
    if kind == "folder":
        source = tmp_path / "negatives"
        source.mkdir()
        for name in ("night", "stripes"):
            (source / name).symlink_to(pictures / name)
    filled.fit("slem(lam=0.01)", negatives=source)
    _, X = filled.vectors("plain")
    expected = Slem(lam=0.01).fit(other.vectors("color")[1]).transform(X)
    np.testing.assert_allclose(filled.vectors("slem")[1], expected, atol=1 / 254)


def test_transforms_before_slem_are_fitted_on_the_collection_itself(filled, other):
    filled.fit("own = color() | pca(dim=4) | slem(lam=0.1)", negatives=other.path)
    filled.fit("flat = color() | pca(dim=4)")
    pca = filled.space("flat").chain.transforms[0]
    X, N = filled.vectors("plain")[1], other.vectors("color")[1]
    expected = Slem(lam=0.1).fit(pca.transform(N)).transform(pca.transform(X))
    np.testing.assert_allclose(filled.vectors("own")[1], expected, atol=1 / 254)


def test_unusable_negatives_are_rejected(filled, pictures, tmp_path):
    with pytest.raises(InputError, match="does not use negatives"):
        filled.fit("flat = color() | pca(dim=4)", negatives=pictures)
    with pytest.raises(SourceError, match="nowhere"):
        filled.fit("slem(lam=0.01)", negatives=tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no readable picture"):
        filled.fit("slem(lam=0.01)", negatives=tmp_path / "empty")
    with Collection(tmp_path / "bare", create=True), pytest.raises(InputError, match="has no vectors of color"):
        filled.fit("slem(lam=0.01)", negatives=tmp_path / "bare")


def test_vocabularies_of_other_collections_are_rejected(filled, other, pictures):
    filled.add(pictures / "fish", recipes=["words = vlad(k=4)"])
    with pytest.raises(InputError, match="differs between collections"):
        filled.fit("mine = vlad(k=4) | slem(lam=0.1)", negatives=other.path)
