import numpy as np
import pytest

from lookalike.features.inference import open_session, save_graph
from lookalike.features.pooling import POOLS, pool_graph, pools_for
from reference.pooling import POOLS as REFERENCE
from reference.pooling import gem, rmac_regions


def pool(name, maps, **options):
    session = open_session(save_graph(pool_graph(name, maps.shape[1:], **options)), threads=1)
    return session.run(["row"], {"map": maps})[0]


def make(*shape):
    return np.random.default_rng(5).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("name", pools_for(axes=4))
@pytest.mark.parametrize(
    "size", [(7, 7), (1, 1), (2, 2), (6, 6), (7, 11), (11, 7), (3, 20), (1, 9), (2, 1)], ids=lambda size: f"{size}"
)
def test_maps_of_any_size_are_pooled_as_in_the_paper(name, size):
    maps = make(3, 5, *size)
    rows = pool(name, maps)
    assert rows.shape == (3, 5)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, [REFERENCE[name](one) for one in maps], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", pools_for(axes=3))
@pytest.mark.parametrize("tokens", [1, 50])
def test_tokens_are_pooled_by_their_formulas(name, tokens):
    X = make(2, tokens, 6)
    np.testing.assert_allclose(pool(name, X), [REFERENCE[name](one) for one in X], rtol=1e-4, atol=1e-6)


def test_every_pool_has_a_reference():
    assert set(REFERENCE) == set(POOLS) == {*pools_for(axes=3), *pools_for(axes=4)}


@pytest.mark.parametrize("p", [0.5, 1, 8.0])
def test_the_power_of_gem_can_be_chosen(p):
    maps = np.abs(make(2, 4, 5, 5))
    np.testing.assert_allclose(pool("gem", maps, p=p), [gem(one, p) for one in maps], rtol=1e-4)


def test_a_map_of_zeros_gives_zeros_and_never_nan():
    zeros = np.zeros((1, 4, 7, 7), np.float32)
    for name in ("avg", "max", "spoc", "rmac"):
        assert pool(name, zeros).tolist() == [[0, 0, 0, 0]]


def test_spoc_gives_the_border_little_weight_and_rmac_much_more():
    centre, corner = np.zeros((2, 1, 1, 7, 7), np.float32)
    centre[..., 3, 3] = corner[..., 0, 0] = 1
    assert pool("spoc", corner) < 0.01 * pool("spoc", centre)
    assert pool("rmac", corner) > 0.2 * pool("rmac", centre)


@pytest.mark.parametrize("name", pools_for(axes=4))
def test_mirrored_and_rotated_maps_give_the_same_vector(name):
    maps = make(2, 3, 7, 7)
    for turned in (maps[..., ::-1], maps[..., ::-1, :], maps.transpose(0, 1, 3, 2)):
        np.testing.assert_allclose(pool(name, np.ascontiguousarray(turned)), pool(name, maps), rtol=1e-4, atol=1e-5)


def test_a_square_map_has_fourteen_regions_and_a_long_one_more():
    assert len(rmac_regions(7, 7)) == 1 + 4 + 9
    assert len(rmac_regions(7, 14)) == 1 * 3 + 2 * 4 + 3 * 5  # three squares, each overlapping the next by half
