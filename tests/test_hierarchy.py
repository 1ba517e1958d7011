import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.classes.hierarchy import Hierarchy, cluster_hierarchy, map_means, prior_means
from lookalike.errors import InputError
from reference.classes import slow_prior

TREE = [("cat", "pet"), ("dog", "pet"), ("pet", "animal"), ("lion", "animal"), ("animal", "thing"), ("car", "thing")]


@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.booleans())
def test_priors_are_the_means_of_ancestors_without_the_class_itself(seed, size, several):
    random = np.random.default_rng(seed)
    pairs = [
        (str(i), str(random.integers(i))) for i in range(1, size) for _ in range(1 + several) if random.random() < 0.9
    ]
    tree = Hierarchy(pairs)
    labels = [str(i) for i in random.permutation(size + 1)]  # the last one is not in a pair
    means, counts = random.normal(size=(size + 1, 3)), random.integers(0, 3, size + 1)
    got, known = prior_means(tree, labels, means, counts)
    seen = {label: mean for label, mean, count in zip(labels, means, counts, strict=True) if count}
    for i, label in enumerate(labels):
        expected = slow_prior(tree.parents, seen, label)
        assert known[i] == (expected is not None)
        if known[i]:
            np.testing.assert_allclose(got[i], expected, atol=1e-12)


def test_torch_gives_the_results_of_numpy():
    torch = pytest.importorskip("torch")
    means, counts = np.random.default_rng(0).normal(size=(4, 3)), np.array([3, 0, 2, 1])
    labels = ["cat", "dog", "lion", "car"]
    expected, known = prior_means(Hierarchy(TREE), labels, means, counts)
    got, also = prior_means(Hierarchy(TREE), labels, torch.asarray(means), counts)
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)
    np.testing.assert_array_equal(also, known)
    mapped = map_means(torch.asarray(means), counts, got, 5.0)
    np.testing.assert_allclose(mapped.numpy(), map_means(means, counts, expected, 5.0), atol=1e-12)


def test_map_means_move_from_the_prior_to_the_sample_mean():
    sample, prior = np.array([[4.0, 0.0]]), np.array([[0.0, 8.0]])
    shares = [map_means(sample, np.array([n]), prior, 10.0)[0, 0] / 4 for n in (0, 1, 10, 100, 10**9)]
    np.testing.assert_allclose(shares, [0, 1 / 11, 1 / 2, 10 / 11, 1], atol=1e-7)
    np.testing.assert_array_equal(map_means(sample, np.array([0]), prior, 10.0), prior)


def test_names_and_files_give_the_same_hierarchy(tmp_path):
    file = tmp_path / "tree.csv"
    file.write_text("child,parent\na/b/c, a/b\n\na/b,a\n", encoding="utf-8-sig")
    by_name, by_file = Hierarchy.from_names(["a/b/c", "x"]), Hierarchy.from_csv(file)
    assert sorted(by_name.pairs) == sorted(by_file.pairs) == [("a/b", "a"), ("a/b/c", "a/b")]
    assert by_name.ancestors("a/b/c") == ["a/b", "a"]
    assert by_name.ancestors("x") == by_name.ancestors("unknown") == []


def test_the_error_for_a_line_without_a_parent_names_it(tmp_path):
    file = tmp_path / "tree.csv"
    file.write_text("cat,pet\ndog\n")
    with pytest.raises(InputError, match="'dog' on line 2"):
        Hierarchy.from_csv(file)


@pytest.mark.parametrize("pairs", [[("a", "a")], [("a", "b"), ("b", "c"), ("c", "a")], [*TREE, ("thing", "cat")]])
def test_cycles_raise_an_error(pairs):
    with pytest.raises(InputError, match="no cycle"):
        Hierarchy(pairs)


def test_two_paths_to_an_ancestor_are_not_a_cycle():
    tree = Hierarchy([("a", "b"), ("a", "c"), ("b", "top"), ("c", "top"), ("top", "all"), ("a", "b")])
    assert tree.ancestors("a") == ["b", "c", "top", "all"]
    assert tree.renamed("top", "new").ancestors("b") == ["new", "all"]


def test_clusters_group_similar_classes():
    random = np.random.default_rng(5)
    means = np.repeat(random.normal(size=(4, 6)) * 50, 8, axis=0) + random.normal(size=(32, 6))
    tree = cluster_hierarchy(means, [f"c{i}" for i in range(32)])
    lines = [tree.ancestors(f"c{i}") for i in range(32)]
    assert len({len(line) for line in lines}) == 1
    assert len({line[1] for line in lines}) == 2
    assert len({line[-1] for line in lines}) == 1  # one group of all classes
    for i in range(0, 32, 8):
        assert len({line[1] for line in lines[i : i + 8]}) == 1
    prior, known = prior_means(tree, [f"c{i}" for i in range(32)], means, np.ones(32, np.int64))
    assert known.all()
    assert np.linalg.norm(prior - means, axis=1).mean() < np.linalg.norm(means - means.mean(axis=0), axis=1).mean()


def test_clusters_need_two_classes():
    with pytest.raises(InputError, match="at least 2 labels"):
        cluster_hierarchy(np.ones((1, 2)), ["a"])
