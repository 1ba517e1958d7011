import pytest
from lookalike.images.demo import draw_folder

from lookalike import Collection


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """A folder of drawn pictures, four of each kind. Look, do not touch."""
    folder = tmp_path_factory.mktemp("drawn")
    draw_folder(folder, per_kind=4, random_state=0)
    return folder


@pytest.fixture
def collection(tmp_path):
    """A new collection."""
    with Collection(tmp_path / "collection", create=True) as made:
        yield made
