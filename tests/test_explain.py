"""The negatives with the most influence on a picture, in a collection."""

import shutil

import numpy as np
import pytest

from lookalike import Collection, cli
from lookalike.encode.kernel_slem import KernelSlem
from lookalike.encode.slem import Slem
from lookalike.encode.whiten import PCA
from lookalike.errors import InputError
from lookalike.images.decoding import read

pytestmark = pytest.mark.usefixtures("read_here")

KINDS = ("fish", "house", "flower")


@pytest.fixture
def other(shared, tmp_path):
    """A collection of other kinds."""
    with Collection(shutil.copytree(shared("plain = fourier()", "night", "stripes"), tmp_path / "other")) as collection:
        yield collection


@pytest.mark.parametrize("slem", [Slem(lam=0.01), KernelSlem(gamma=0.5, lam=0.01, rank=6)])
@pytest.mark.parametrize("outside", [False, True])
def test_the_most_influential_negatives_come_first(filled, other, slem, outside):
    spec = "slem(lam=0.01)" if isinstance(slem, Slem) else "kernelslem(gamma=0.5, lam=0.01, rank=6)"
    filled.fit(f"told = fourier() | {spec}", negatives=other.path if outside else None)
    pool = other if outside else filled
    ids, N = pool.vectors("plain")
    mine, X = filled.vectors("plain")
    expected = slem.fit(N).pushes(X[3:4], N)[0]
    found = filled.explain(int(mine[3]), space="told", k=4)
    others = np.flatnonzero(ids != mine[3])  # the picture itself is not listed
    best = others[np.argsort(-expected[others])[:4]]
    assert [push.id for push in found] == ids[best].tolist()
    assert [push.push for push in found] == pytest.approx(expected[best].tolist(), rel=1e-3)
    assert [push.path for push in found] == [pool.get([push.id])[push.id].paths[0] for push in found]
    assert {push.collection for push in found} == {str(other.path) if outside else None}
    every_push = filled.explain(int(mine[3]), space="told", k=100)
    assert {push.id for push in every_push} == set(ids[others].tolist())
    own = 0 if outside else expected[3]
    assert (sum(push.push for push in every_push) + own) / len(ids) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("example", ["id", "path", "pixels", "copy"])
def test_a_picture_is_not_listed_as_its_own_negative(filled, pictures, tmp_path, example):
    path = sorted((pictures / "fish").iterdir())[0]
    shutil.copy(path, tmp_path / "copy.jpg")
    item = next(item.id for item in filled.items() if str(path) in item.paths)
    filled.fit("slem(lam=0.01)")
    given = {"id": item, "path": path, "pixels": read(path.read_bytes()).pixels, "copy": tmp_path / "copy.jpg"}[example]
    listed = {push.id for push in filled.explain(given, k=100)}
    assert listed == {other.id for other in filled.items()} - {item}


def test_a_picture_with_the_same_vector_is_not_listed(filled, pictures, tmp_path):
    path = sorted((pictures / "fish").iterdir())[0]
    (tmp_path / "twin.jpg").write_bytes(path.read_bytes() + b"\0")  # another id, the same pixels
    filled.add(tmp_path / "twin.jpg", workers=1)
    filled.fit("slem(lam=0.01)")
    twins = {item.id for item in filled.items() if {str(path), str(tmp_path / "twin.jpg")} & set(item.paths)}
    assert len(twins) == 2
    assert not twins & {push.id for push in filled.explain(path, k=100)}


def test_earlier_transforms_are_applied_and_pictures_need_not_be_in_the_collection(filled, pictures):
    filled.fit("told = fourier() | pca(dim=3) | slem(lam=0.1)")
    ids, N = filled.vectors("plain")
    pca = PCA(dim=3).fit(N)
    slem = Slem(lam=0.1).fit(pca.transform(N))
    picture = next((pictures / "night").iterdir())
    filled.add(picture)
    row = dict(zip(*filled.vectors("plain"), strict=True))
    (new,) = set(row) - set(ids.tolist())
    expected = slem.pushes(pca.transform(row[new][None]), pca.transform(N))[0]
    assert filled.explain(new, k=1)[0].id == ids[expected.argmax()]
    filled.remove(int(new))
    assert filled.explain(picture, k=1)[0].id == ids[expected.argmax()]


def test_only_existing_pictures_of_the_pool_are_listed(filled, pictures):
    filled.fit("slem(lam=0.01)")
    before = {item.id for item in filled.items()}
    filled.add(pictures / "night", workers=1)
    assert {push.id for push in filled.explain(next((pictures / "night").iterdir()), k=100)} == before
    filled.remove(pictures / "house")
    left = {push.id for push in filled.explain(next((pictures / "night").iterdir()), k=100)}
    assert left == before & {item.id for item in filled.items()}
    for kind in ("fish", "flower"):
        filled.remove(pictures / kind)
    with pytest.raises(InputError, match=r"All negatives of .* Run: lookalike fit slem"):
        filled.explain(next((pictures / "night").iterdir()))


def test_the_error_explains_why_a_picture_cannot_be_explained(filled, other, pictures):
    item = next(filled.items()).id
    with pytest.raises(InputError, match=r"Create one: lookalike fit 'slem\(\)'"):
        filled.explain(item)
    with pytest.raises(InputError, match="does not use negatives"):
        filled.explain(item, space="plain")
    filled.fit("slem(lam=0.01)", negatives=other.path)
    with pytest.raises(InputError, match="k must be a whole number of at least 1"):
        filled.explain(item, k=0)
    shutil.rmtree(other.path)
    with pytest.raises(InputError, match="whose vectors are not stored"):
        filled.explain(item)
    filled.fit("slem", negatives=pictures / "night", workers=1)
    with pytest.raises(InputError, match=r"whose vectors are not stored.* lookalike fit slem --negatives POOL"):
        filled.explain(item)
    with filled._store.writer(), filled._store.transaction() as db:
        db.execute("DELETE FROM pools")  # as in a collection of an older format
    with pytest.raises(InputError, match="'slem' has no negative pool"):
        filled.explain(item)
    filled.remove_space("slem")
    assert filled._store.vectors.pools("slem") == []


def test_the_command_line_lists_negatives(filled, capsys):
    filled.fit("slem(lam=0.01)")
    item = next(filled.items())
    assert cli.run(["-c", str(filled.path), "explain", item.paths[0], "-k", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = filled.explain(item.id, k=2)
    assert lines == [f"{push.push:9.3f}  {push.path}" for push in found]
    assert cli.run(["-c", str(filled.path), "explain", item.paths[0], "--json"]) == 0
    assert '"collection": null' in capsys.readouterr().out
