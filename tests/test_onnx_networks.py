import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

from lookalike.errors import InputError, MissingError
from lookalike.features.onnx_networks import Onnx
from lookalike.registry import create, spec_of
from reference.pooling import rmac, spoc

random = np.random.default_rng(11)
PICTURES = [random.integers(0, 256, (8, 8, 3), dtype=np.uint8) for _ in range(3)]
X = np.stack(PICTURES) / np.float32(255)  # (3, 8, 8, 3), the default input of a network

MAPS = "net (float[n, 3, 8, 8] image) => (float[n, 3, 8, 8] map) { map = Identity (image) }"
ROWS = "net (float[n, 3, 8, 8] image) => (float[n, 192] row) { row = Flatten (image) }"
TOKENS = """
    net (float[n, 3, 8, 8] image) => (float[n, 64, 3] tokens)
    <int64[3] shape = {0, 3, 64}>
    { flat = Reshape (image, shape) tokens = Transpose <perm = [0, 2, 1]> (flat) }
"""


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def gem(maps, p=3.0):
    return np.mean(np.clip(maps, 1e-6, None) ** p, axis=(1, 2)) ** (1 / p)


@pytest.mark.parametrize(
    ("graph", "pool", "expected"),
    [
        (ROWS, None, X.transpose(0, 3, 1, 2).reshape(3, -1)),
        (MAPS, None, gem(X)),
        (MAPS, "gem", gem(X)),
        (MAPS, "avg", X.mean(axis=(1, 2))),
        (MAPS, "max", X.max(axis=(1, 2))),
        (MAPS, "spoc", np.stack([spoc(x) for x in X.transpose(0, 3, 1, 2)])),
        (MAPS, "rmac", np.stack([rmac(x) for x in X.transpose(0, 3, 1, 2)])),
        (TOKENS, None, X[:, 0, 0]),
        (TOKENS, "cls", X[:, 0, 0]),
        (TOKENS, "mean", X.mean(axis=(1, 2))),
    ],
)
def test_vectors_maps_and_tokens_become_one_unit_vector_per_picture(save, graph, pool, expected):
    feature = Onnx(save(graph), size=8, pool=pool)
    rows = feature.extract(PICTURES)
    assert feature.dim == expected.shape[1]
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, unit(expected), atol=1e-5)


@pytest.mark.parametrize(
    ("mean", "scale"), [(127, 128.0), ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)), ([1, 2, 3], 5)]
)
def test_pixels_are_centred_and_scaled_as_declared(save, mean, scale):
    feature = Onnx(save(ROWS), size=8, mean=mean, scale=scale)
    expected = (np.stack(PICTURES) - np.asarray(mean)) / np.asarray(scale)
    np.testing.assert_allclose(
        feature.extract(PICTURES), unit(expected.transpose(0, 3, 1, 2).reshape(3, -1)), atol=1e-5
    )


@pytest.mark.parametrize(
    "graph",
    [
        "net (float[n, 8, 8, 3] image) => (float[n, 8, 8, 3] map) { map = Identity (image) }",
        "net (float[n, h, w, 3] image) => (float[n, h, w, c] map) { map = Identity (image) }",
        "net (float[n, c, h, w] image) => (float[n, c, h, w] map) { map = Identity (image) }",
        "net (float[1, 3, 8, 8] image) => (float[1, 3, 8, 8] map) { map = Identity (image) }",
        "net (float[2, 3, 8, 8] image) => (float[2, 3, 8, 8] map) { map = Identity (image) }",
        "net (float[n, 3, 8, 8] image) => (float[n, 8, 8, 3] map) { map = Transpose <perm = [0, 2, 3, 1]> (image) }",
        "net (double[n, 3, 8, 8] image) => (double[n, 3, 8, 8] map) { map = Identity (image) }",
    ],
)
def test_layout_batch_size_and_precision_of_the_input_are_detected(save, graph):
    np.testing.assert_allclose(Onnx(save(graph), size=8).extract(PICTURES), unit(gem(X)), atol=1e-5)


def test_networks_of_half_precision_work(save):
    graph = "net (float16[n, 3, 8, 8] image) => (float16[n, 192] row) { row = Flatten (image) }"
    expected = unit(X.transpose(0, 3, 1, 2).reshape(3, -1))
    np.testing.assert_allclose(Onnx(save(graph), size=8).extract(PICTURES), expected, atol=1e-3)


def test_an_output_can_be_chosen_by_name(save):
    path = save(
        "net (float[n, 3, 8, 8] image) => (float[n, 192] row, float[n, 3, 8, 8] map)"
        "{ row = Flatten (image) map = Identity (image) }"
    )
    assert Onnx(path, size=8).dim == 192
    assert Onnx(path, size=8, output="map").dim == 3


LAYERS = """
    net (float[n, 3, 8, 8] image) => (float[n, 5] logits)
    {{
        map = Relu (image)
        flat = Flatten (map)
        fc6 = Gemm <alpha = 0.5> (flat, w)
        fc7 = Relu (fc6)
        {}
        logits = Identity (fc7)
    }}
"""
W = random.normal(size=(192, 5)).astype(np.float32)


@pytest.fixture(params=["inside", "beside"])
def layered(request, tmp_path):
    """A network of several layers with one output. Its weights are in the same file or in a second one."""
    more = " ".join(f"branch{i} = Neg (fc6)" for i in range(300))
    model = parse_model(f'<ir_version: 8, opset_import: ["": 17]> {LAYERS.format(more)}')
    model.graph.initializer.append(onnx.numpy_helper.from_array(W, "w"))
    path = tmp_path / "layers.onnx"
    onnx.save(model, path, save_as_external_data=request.param == "beside", location="weights.bin", size_threshold=0)
    return path


def test_a_tensor_inside_the_network_can_be_chosen_by_name(layered):
    flat = X.transpose(0, 3, 1, 2).reshape(3, -1)
    for output, expected in {"flat": flat, "fc6": flat @ W, "fc7": np.maximum(flat @ W, 0), "map": gem(X)}.items():
        np.testing.assert_allclose(Onnx(layered, size=8, output=output).extract(PICTURES), unit(expected), atol=1e-5)


def test_nodes_after_the_chosen_tensor_are_not_computed(save):
    path = save(
        "net (float[n, 3, h, w] image) => (float[n, 3, h, w] end)"
        "<float[7] s = {1,2,3,4,5,6,7}> { map = Relu (image) end = Mul (map, s) }"
    )
    with pytest.raises(InputError, match="fails on 8"):
        Onnx(path, size=8).extract(PICTURES)
    assert Onnx(path, size=8, output="map").dim == 3


def test_tensors_that_branches_read_from_outside_are_kept(save):
    path = save("""
        net (float[n, 3, 8, 8] image) => (float[n, 3, 8, 8] end) <bool yes = {1}, float two = {2}, float three = {3}>
        {
            map = If (yes) <
                then_branch = twice () => (float[n, 3, 8, 8] a) { a = Mul (image, two) },
                else_branch = thrice () => (float[n, 3, 8, 8] b) { b = Mul (image, three) }
            >
            end = Neg (map)
        }
    """)
    np.testing.assert_allclose(Onnx(path, size=8, output="map").extract(PICTURES), unit(gem(2 * X)), atol=1e-5)


def test_old_files_that_list_weights_as_inputs_work(tmp_path):
    model = parse_model(
        '<ir_version: 3, opset_import: ["": 9]> net (float[n, 3, 8, 8] image, float[1] w, float[1] v)'
        " => (float[n, 3, 8, 8] end) { map = Mul (image, w) end = Mul (map, v) }"
    )
    for name in "wv":
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(1, np.float32), name))
    onnx.save(model, tmp_path / "old.onnx")
    for output in (None, "map"):
        np.testing.assert_allclose(
            Onnx(tmp_path / "old.onnx", size=8, output=output).extract(PICTURES), unit(gem(X)), atol=1e-5
        )


def test_an_unknown_tensor_is_reported_with_the_nearest_names_and_a_way_to_list_all(layered):
    with pytest.raises(InputError) as error:
        Onnx(layered, size=8, output="fc_7").extract(PICTURES)
    assert f"No tensor named 'fc_7' in {layered}. Outputs: logits. " in str(error.value)
    assert "Most similar names of 305 inner tensors: fc7, fc6" in str(error.value)
    assert "branch17" not in str(error.value)
    names = eval(str(error.value).partition("To list all: ")[2], {"onnx": onnx})
    assert len(names) == 305
    with pytest.raises(InputError, match="inner tensors: none"):
        Onnx(layered, size=8, output="/////").extract(PICTURES)


def test_a_network_that_fails_on_batches_gets_one_picture_at_a_time(save):
    path = save("""
        net (float[n, 3, 8, 8] image) => (float[m, 65, 3] tokens)
        <int64[3] shape = {0, 3, 64}, float[1, 1, 3] cls = {1, 2, 3}>
        {
            flat = Reshape (image, shape)
            patches = Transpose <perm = [0, 2, 1]> (flat)
            tokens = Concat <axis = 1> (cls, patches)
        }
    """)
    expected = (X.reshape(3, 64, 3).sum(axis=1) + np.array([1, 2, 3])) / 65
    np.testing.assert_allclose(Onnx(path, size=8, pool="mean").extract(PICTURES), unit(expected), atol=1e-5)


def test_vectors_of_boxes_equal_those_of_cropped_pictures(save):
    feature = Onnx(save(MAPS), size=8)
    picture = random.integers(0, 256, (60, 90, 3), dtype=np.uint8)
    boxes = [(0.0, 0.0, 1.0, 1.0), (0.2, 0.5, 0.6, 1.0), (0.999, 0.999, 1.0, 1.0)]
    cut_out = [picture, picture[30:60, 18:54], picture[59:, 89:]]
    np.testing.assert_array_equal(feature.regions(picture, boxes), feature.extract(cut_out))


def test_weights_in_a_second_file_are_found_next_to_the_network(tmp_path, save):
    model = parse_model(f'<ir_version: 8, opset_import: ["": 17]> {MAPS}'.replace("Identity (image)", "Mul (image, w)"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.full((1, 3, 8, 8), 2, np.float32), "w"))
    onnx.save(model, tmp_path / "big.onnx", save_as_external_data=True, location="big.bin", size_threshold=0)
    assert (tmp_path / "big.bin").stat().st_size >= 768
    np.testing.assert_allclose(Onnx(tmp_path / "big.onnx", size=8).extract(PICTURES), unit(gem(2 * X)), atol=1e-5)


def test_a_batch_gives_the_same_vectors_as_one_picture_at_a_time(save):
    feature = Onnx(save(MAPS), size=8)
    many = PICTURES * 6  # more than one batch, and the last is incomplete
    one_by_one = np.concatenate([feature.extract([picture]) for picture in many])
    np.testing.assert_allclose(feature.extract(many), one_by_one, atol=1e-6)
    assert feature.extract([]).shape == (0, 3)


@pytest.mark.parametrize("shape", [(1, 1), (10, 4000), (4000, 10), (4000, 5000)])
def test_pictures_of_any_shape_give_finite_unit_vectors(save, shape):
    feature = Onnx(save(MAPS), size=8)
    rows = feature.extract([np.full((*shape, 3), 9, np.uint8), np.zeros((*shape, 3), np.uint8)])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_a_network_gets_the_central_square():
    wide = np.zeros((8, 20, 3), np.uint8)
    wide[:, 6:14] = PICTURES[0]
    np.testing.assert_array_equal(Onnx("any.onnx", size=8).prepare(wide), PICTURES[0])


def test_it_is_thread_safe(save):
    feature = Onnx(save(MAPS), size=8)
    with ThreadPoolExecutor(4) as pool:
        for rows in pool.map(lambda _: feature.extract(PICTURES), range(8)):
            np.testing.assert_allclose(rows, unit(gem(X)), atol=1e-5)


def test_creating_it_needs_no_file_and_pickling_keeps_its_options(tmp_path):
    feature = Onnx(tmp_path / "later.onnx", size=8, mean=(1.0, 2.0, 3.0), pool="max")
    copy = pickle.loads(pickle.dumps(feature))
    assert (
        spec_of(copy)
        == spec_of(feature)
        == f"onnx(path='{tmp_path}/later.onnx', size=8, mean=(1.0, 2.0, 3.0), pool='max')"
    )
    assert spec_of(create("feature", spec_of(feature))) == spec_of(feature)


def test_a_missing_file_is_named_in_the_error(tmp_path):
    with pytest.raises(MissingError, match=r"The network .*none\.onnx does not exist"):
        Onnx(tmp_path / "none.onnx").extract(PICTURES)


@pytest.mark.parametrize("data", [b"", b"not a network", bytes(range(256)) * 4])
def test_a_file_of_another_format_is_rejected(tmp_path, data, capfd):
    path = tmp_path / "other.onnx"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"Cannot load .*other\.onnx as an ONNX file"):
        Onnx(path).extract(PICTURES)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (MAPS.replace("8, 8]", "9, 9]"), r"needs the input image \['n', 3, 9, 9\] .* size=8 gives \[3, 8, 8\]"),
        (MAPS.replace("3, 8, 8]", "1, 8, 8]"), r"needs the input image \['n', 1, 8, 8\]"),
        ("net (float[n, 192] image) => (float[n, 192] row) { row = Identity (image) }", "must have one input"),
        ("net (int64[n, 3, 8, 8] image) => (int64[n, 3, 8, 8] row) { row = Identity (image) }", "must have one input"),
        ("net (float[n,3,8,8] a, float[n,3,8,8] b) => (float[n,3,8,8] c) { c = Add (a, b) }", "the image part"),
        ("net (float[n, 3, 8, 8] image) => (float row) { row = ReduceSum <keepdims = 0> (image) }", "Choose an output"),
        (
            "net (float[n, 3, 8, 8] image) => (float[64, 3] row) <int64[2] s = {64, 3}> { row = Reshape (image, s) }",
            "is the number of pictures",
        ),
        (
            "net (float[n, 3, h, w] x) => (float[n, 3, h, w] y) <float[7] s = {1,2,3,4,5,6,7}> { y = Mul (x, s) }",
            "fails on 8",
        ),
    ],
)
def test_a_network_that_does_not_fit_the_pictures_is_rejected_with_the_reason(save, graph, message, capfd):
    with pytest.raises(InputError, match=message):
        Onnx(save(graph), size=8).extract(PICTURES)
    assert capfd.readouterr() == ("", "")


def test_a_pooling_that_does_not_fit_the_output_is_rejected_with_those_that_do(save):
    with pytest.raises(InputError, match=r"pool='gem' does not support. Use 'cls' or 'mean'"):
        Onnx(save(TOKENS), size=8, pool="gem").extract(PICTURES)
    with pytest.raises(
        InputError, match=r"pool='cls' does not support. Use 'gem' or 'avg' or 'max' or 'spoc' or 'rmac'"
    ):
        Onnx(save(MAPS), size=8, pool="cls").extract(PICTURES)
    with pytest.raises(InputError, match=r"pool='max' does not support. Use pool=None"):
        Onnx(save(ROWS), size=8, pool="max").extract(PICTURES)


def test_values_that_are_not_finite_are_reported(save):
    path = save("net (float[n, 3, 8, 8] image) => (float[n, 192] row) { flat = Flatten (image) row = Log (flat) }")
    with pytest.raises(InputError, match="Check mean and scale"):
        Onnx(path, size=8, mean=255).extract(PICTURES)


@pytest.mark.parametrize(
    "options",
    [{"size": 0}, {"size": "8"}, {"mean": (1, 2)}, {"mean": "a"}, {"scale": 0}, {"scale": (1, 0, 1)}, {"pool": "gme"}],
)
def test_invalid_options_are_rejected_in_the_constructor(options):
    with pytest.raises(InputError):
        Onnx("any.onnx", **options)
