import numpy as np
import pytest

from lookalike.errors import InputError, UnknownNameError
from lookalike.images.decoding import read
from lookalike.images.demo import KINDS, draw, draw_folder


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_gives_the_same_picture_and_another_seed_a_different_one(kind):
    first, again, other = (draw(kind, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first.shape == (240, 320, 3)
    assert first.dtype == np.uint8
    assert first.std() > 10
    assert np.array_equal(first, again)
    assert np.abs(first.astype(int) - other).mean() > 3


def test_a_dozen_kinds_differ_in_their_colours():
    assert len(KINDS) >= 12
    pictures = [(kind, draw(kind, np.random.default_rng(seed))) for kind in KINDS for seed in range(4)]
    cells = np.array([picture.reshape(6, 40, 8, 40, 3).mean((1, 3)).ravel() for _, picture in pictures])
    apart = ((cells[:, None] - cells[None]) ** 2).sum(-1)
    np.fill_diagonal(apart, np.inf)
    nearest = apart.argmin(1)
    right = [pictures[i][0] == pictures[j][0] for i, j in enumerate(nearest)]
    assert np.mean(right) > 0.7


def test_a_folder_is_reproducible_and_can_be_extended(tmp_path):
    paths = draw_folder(tmp_path / "a", per_kind=2, random_state=3)
    assert paths == sorted(paths)
    assert [path.relative_to(tmp_path / "a").as_posix() for path in paths[:2]] == [
        f"{KINDS[0]}/{KINDS[0]}-000.jpg",
        f"{KINDS[0]}/{KINDS[0]}-001.jpg",
    ]
    assert len(paths) == 2 * len(KINDS)
    content = [path.read_bytes() for path in paths]
    assert len(set(content)) == len(paths)
    times = [path.stat().st_mtime_ns for path in paths]
    more = draw_folder(tmp_path / "a", per_kind=3, random_state=3)
    assert set(paths) < set(more)
    assert [path.read_bytes() for path in paths] == content
    assert [path.stat().st_mtime_ns for path in paths] == times
    other = draw_folder(tmp_path / "b", per_kind=1, random_state=4)
    assert other[0].read_bytes() != content[0]
    assert all(read(path).width == 320 for path in other)
    assert all(not path.name.startswith(".") for path in tmp_path.rglob("*"))


def test_progress_is_reported(tmp_path):
    told = []
    draw_folder(tmp_path, per_kind=1, progress=lambda *step: told.append(step))
    assert told == [("drawing", i + 1, len(KINDS)) for i in range(len(KINDS))]


def test_unknown_kinds_and_numbers_are_rejected(tmp_path):
    with pytest.raises(UnknownNameError, match="Did you mean 'sunset'"):
        draw("sunsett", np.random.default_rng(0))
    with pytest.raises(InputError, match="per_kind must be at least 1"):
        draw_folder(tmp_path, per_kind=0)
