"""The device option: choosing a GPU, and collections that use one. `GpuFlat` computes the same on the CPU."""

import pkgutil
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from lookalike import Collection, devices
from lookalike.cli import run
from lookalike.collection import collection as collections
from lookalike.collection import indexes
from lookalike.collection.chain import fit_step
from lookalike.errors import MissingError, UnknownNameError
from lookalike.registry import create, state_of
from waiting import TIMEOUT_S

pytestmark = pytest.mark.usefixtures("read_here")
random = np.random.default_rng(0)
Y = np.array([f"class {i}" for i in np.arange(240) % 6])
X = (random.normal(size=(6, 10))[np.arange(240) % 6] + 0.5 * random.normal(size=(240, 10))).astype(np.float32)


@pytest.fixture
def no_gpu(monkeypatch):
    """Remove the driver, whatever this machine has."""
    monkeypatch.setattr(devices, "DRIVERS", ())
    devices.gpu_problem.cache_clear()
    yield
    devices.gpu_problem.cache_clear()


@pytest.fixture
def driver(monkeypatch, tmp_path):
    """A driver without a GPU."""
    monkeypatch.setattr(devices, "DRIVERS", (tmp_path,))
    devices.gpu_problem.cache_clear()
    yield
    devices.gpu_problem.cache_clear()


@pytest.fixture
def on_gpu(monkeypatch):
    """Use `GpuFlat` on the CPU in place of a GPU, for any number of rows."""
    pytest.importorskip("torch")
    monkeypatch.setattr(collections, "find_gpu", lambda device: None if device == "cpu" else "cpu")
    monkeypatch.setattr(indexes, "GPU_MIN", 1)


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_auto_is_the_cpu_and_cuda_is_an_error(shared, capsys):
    assert devices.find_gpu("auto") is devices.find_gpu("cpu") is None
    with pytest.raises(MissingError, match="no NVIDIA GPU"):
        devices.find_gpu("cuda")
    assert run(["-c", str(shared("color")), "--device", "cuda", "stats"]) == 2
    assert "cannot be used: this machine has no NVIDIA GPU" in capsys.readouterr().err


@pytest.mark.usefixtures("driver")
def test_the_error_names_what_to_install(monkeypatch):
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    assert devices.find_gpu("auto") is None
    with pytest.raises(MissingError, match=r"pip install 'lookalike\[torch\]'"):
        devices.find_gpu("cuda")


@pytest.mark.usefixtures("driver")
def test_a_torch_without_cuda_is_not_used(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(MissingError, match="Install PyTorch for CUDA"):
        devices.find_gpu("cuda")


def test_an_unknown_device_is_rejected(tmp_path):
    with pytest.raises(UnknownNameError, match="Did you mean 'cuda'"):
        Collection(tmp_path / "new", create=True, device="cudaa")


def test_torch_is_not_imported_without_a_driver(shared):
    program = f"""
import sys
from lookalike import Collection, devices
devices.DRIVERS = ()
with Collection({str(shared("color"))!r}) as collection:
    collection.search(next(iter(collection.items())).id, k=2)
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=TIMEOUT_S)


@pytest.mark.usefixtures("on_gpu")
def test_a_collection_on_a_gpu_has_the_results_of_the_cpu(shared, tmp_path, pictures):
    path = shutil.copytree(shared("color"), tmp_path / "own")
    with Collection(path, device="cpu") as without, Collection(path) as own:
        assert own.stats()["index"] == {"color": "gpu"}
        assert without.stats()["index"] == {"color": "flat"}

        def same():
            items = [item.id for item in own.items()]
            found = [[result.item.id for result in each.search(items[3], k=9)] for each in (own, without)]
            assert found[0] == found[1]
            session = own.session(items[0])
            session.mark([items[1]], [items[-1]])
            rounds = [each.session(id=session.id).best(k=9) for each in (own, without)]
            best, expected = ([result.item.id for result in each] for each in rounds)
            assert best == expected
            return items

        items = same()
        own.remove(*items[5:8])
        assert len(same()) == len(items) - 3
        own.add(pictures)
        assert len(same()) == len(items)
        assert own.speeds()[0]["index"] == "gpu"


@pytest.mark.usefixtures("on_gpu")
def test_vectors_with_their_own_measure_are_not_copied_to_the_gpu(shared, tmp_path, monkeypatch):
    path = shutil.copytree(shared("color"), tmp_path / "own")
    with Collection(path) as own:
        own.fit("sharp = color() | kernelslem(rank=8)")
        assert own.stats()["index"] == {"color": "gpu", "sharp": "flat"}
        assert own.space("sharp").feedback_index.kind == "gpu"  # over the vectors of its feature
        example = next(iter(own.items())).id
        expected = [result.id for result in own.search(example, space="sharp", k=9)]
        monkeypatch.setattr(indexes, "choose", lambda n: "hnsw")
        monkeypatch.setattr("lookalike.index.ann.MIN_ROWS", 1)
        own.compact()
        assert own.stats()["index"] == {"color": "gpu", "sharp": "hnsw"}
        assert [result.id for result in own.search(example, space="sharp", k=9)] == expected


@pytest.mark.parametrize(
    "spec",
    ["slem()", "kernelslem()", "ncmml()", "ncmml(dim=4)", "ncmc(dim=4, k=2)", "lmnn()", "dfk(k=6, max_iterations=10)"],
)
def test_a_step_fitted_on_a_device_is_that_of_the_cpu(spec):
    pytest.importorskip("torch")
    y = [] if "slem" in spec else [Y]
    expected, step = fit_step(spec, X, *y), fit_step(spec, X, *y, gpu="cpu")
    assert all(not type(value).__module__.startswith("torch") for value in vars(step).values())
    ours, theirs = (each.transform(X).astype(np.float64) for each in (step, expected))
    if spec == "slem()" or spec.startswith(("ncm", "lmnn")):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
    elif spec == "kernelslem()":  # factors differ, scores do not
        scores = [each.compare(each.transform(X[:5])).score(each.transform(X)) for each in (step, expected)]
        np.testing.assert_allclose(*scores, atol=1e-3)
    else:  # its training amplifies rounding errors
        distances = [((rows[:, None] - rows) ** 2).sum(2).ravel() for rows in (ours, theirs)]
        assert np.corrcoef(*distances)[0, 1] > 0.9


@pytest.mark.usefixtures("on_gpu")
@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("lookalike.encode.slem:Slem.fit", ["slem()"]),
        ("lookalike.encode.kernel_slem:KernelSlem.fit", ["kernelslem(rank=4)"]),
        ("lookalike.learn.ncmml:Ncmml.fit", ["ncmml(dim=4, max_iterations=5)", "--labels"]),
        ("lookalike.learn.ncmc:Ncmc.fit", ["ncmc(dim=4, k=2, max_iterations=5)", "--labels"]),
        ("lookalike.learn.lmnn:Lmnn.fit", ["lmnn(dim=4, max_iterations=5)", "--labels"]),
        ("lookalike.learn.dfk:Dfk.fit", ["dfk(k=2, max_iterations=5)", "--labels"]),
        ("lookalike.codes.pq:kmeans", ["codes(bits=16)"]),
        ("lookalike.features.vlad:kmeans", ["a = vlad(k=2) | pca(dim=4)", "--features"]),
        (
            "lookalike.features.fisher:fit_mixture",
            ["a = fisher(local='colorstats()', k=2, patch_dim=8) | pca(dim=4)", "--features"],
        ),
        ("lookalike.learn.dfk:fit_items", ["a = dfk(local='sift()', k=2, patch_dim=8, max_iterations=2)", "--labels"]),
    ],
)
def test_a_fit_from_the_command_line_gets_its_rows_on_the_device(
    shared, tmp_path, pictures, monkeypatch, function, words
):
    path = str(shutil.copytree(shared("color", "fish", "house"), tmp_path / "own"))
    assert run(["-c", path, "label", str(pictures)]) == 0
    found, called = [], pkgutil.resolve_name(function)

    def spy(*arguments, **options):
        found.extend(type(getattr(rows, "rows", rows)).__module__ for rows in arguments if hasattr(rows, "shape"))
        return called(*arguments, **options)

    target, name = function.replace(":", ".").rsplit(".", 1)
    monkeypatch.setattr(pkgutil.resolve_name(target), name, spy)
    for device in ("cpu", "cuda"):
        found.clear()
        assert run(["-c", path, "--device", device, "fit", *words]) == 0
        assert "numpy" in found or "torch" in found
        assert ("torch" in found) == (device == "cuda")


@pytest.mark.parametrize(
    "spec",
    [
        "vlad(local='colorstats()', k=3, patch_dim=6)",
        "fisher(local='colorstats()', k=2, patch_dim=6)",
        "dfk(local='colorstats()', k=2, patch_dim=6, max_iterations=3)",
    ],
)
def test_a_feature_fitted_on_a_device_is_that_of_the_cpu(spec, pictures):
    pytest.importorskip("torch")
    paths = sorted(pictures.rglob("*-000.jpg"))[:6]
    images = [np.asarray(Image.open(path)) for path in paths]
    features = []
    for gpu in (None, "cpu"):
        feature = create("feature", spec)
        prepared = [feature.prepare(image) for image in images]
        labelled = [(part, [str(i % 2)]) for i, part in enumerate(prepared)] if "dfk" in spec else prepared
        features.append(feature.fit(labelled, gpu=gpu))
    expected, found = (state_of(feature) for feature in features)
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-2, atol=1e-3 * np.abs(expected[name]).max())
    rows, others = (feature.extract(images) for feature in features)
    assert np.vecdot(rows, others).min() > 0.999


def test_networks_use_cuda_if_onnxruntime_offers_it_and_the_device_allows_it():
    both = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    try:
        for device, expected in (("auto", both), ("cuda", both), ("cpu", both[1:])):
            devices.describe_on(device)
            assert devices.onnx_providers(both) == expected
            assert devices.onnx_providers(both[1:]) == both[1:]
    finally:
        devices.describe_on("auto")
