"""Spaces whose chain has a text step, and `lookalike clip`, which creates one."""

import json
import shutil

import numpy as np
import onnx
import onnxruntime
import pytest

from lookalike import Collection, cli
from lookalike.collection.specs import parse_recipe
from lookalike.errors import InputError
from lookalike.registry import create
from towers import KINDS, PIXELS, write_text

pytestmark = pytest.mark.usefixtures("read_here")

OPTIONS = ["--size", "48", "--mean", "127", "--scale", "128"]


@pytest.fixture(scope="module")
def album(pictures, tmp_path_factory):
    """A folder with four pictures of each kind that the network knows. It was trained on others."""
    folder = tmp_path_factory.mktemp("album")
    for kind in KINDS:
        shutil.copytree(pictures / kind, folder / kind)
    return folder


def kinds_found(collection, space, kind, k=4):
    """The kinds of the pictures that are nearest to the name of a kind."""
    (vector,) = collection.space(space).chain.embed_text([kind])
    names = [result.path.split("/")[-2] for result in collection.search(vector, space=space, k=k)]
    assert len(names) == k
    return set(names)


def pipeline(towers):
    feature = f"onnx(path='{towers.image}', size=48, mean=127.0, scale=128.0)"
    return f"{feature} | text(onnx='{towers.text}', tokenizer='{towers.tokenizer}')"


@pytest.fixture(scope="module")
def filled_once(album, towers, tmp_path_factory):
    path = tmp_path_factory.mktemp("clip") / "collection"
    with Collection(path, create=True) as collection:
        collection.add_clip(*towers, **PIXELS, picture=album / "night" / "night-000.jpg", words="night")
        assert collection.add(album, workers=1).added == 20
    return path


@pytest.fixture
def clipped(filled_once, tmp_path):
    """A collection with the space `clip`, which a test can change."""
    with Collection(shutil.copytree(filled_once, tmp_path / "copy")) as collection:
        yield collection


@pytest.mark.parametrize("fit", [False, True])
def test_names_find_pictures_of_their_kind_before_and_after_the_fit(clipped, fit):
    if fit:
        clipped.fit("clip")
    assert clipped.space("clip").is_fitted is fit
    for kind in KINDS:
        assert kinds_found(clipped, "clip", kind) == {kind}


@pytest.mark.parametrize("steps", ["pca(dim=8) | l2()", "pca(dim=8) | smooth(k=2)", "pq(bits=64)", "slem()"])
def test_later_steps_apply_to_texts_too(clipped, towers, steps):
    clipped.fit(f"later = {pipeline(towers)} | {steps}")
    with Collection(clipped.path) as reader:
        space = reader.space("later")
        first, *others = space.chain.transforms
        expected = first.encode(["night", "sunset"])
        for step in others:
            expected = step.transform(expected)
        np.testing.assert_array_equal(space.chain.embed_text(["night", "sunset"]), expected)
        assert expected.shape == (2, 8 if "pca" in steps else 24)
        for kind in KINDS:
            assert kinds_found(reader, "later", kind, k=2) == {kind}


def test_a_text_step_is_added_without_extracting_the_features_again(collection, album, towers):
    collection.add(album, recipes=[f"network = {pipeline(towers).partition(' | ')[0]} | l2()", "color"], workers=1)
    collection.add_clip(*towers, **PIXELS)
    assert len(collection.space("clip")) == len(collection) == 20
    assert kinds_found(collection, "clip", "sunset") == {"sunset"}
    assert [space.name for space in collection.spaces if space.takes_text] == ["clip"]
    with pytest.raises(InputError, match=r"no step for texts\. See: lookalike clip --help"):
        collection.space("network").chain.embed_text(["night"])


def test_a_space_is_filled_by_the_next_refresh(collection, album, towers):
    collection.add(album, recipes=["color"], workers=1)
    collection.add_clip(*towers, **PIXELS)
    assert len(collection.space("clip")) == 0
    collection.refresh(workers=1)
    assert kinds_found(collection, "clip", "flower") == {"flower"}


def test_paths_are_stored_as_absolute_paths(towers, monkeypatch):
    monkeypatch.chdir(towers.text.parent)
    _, chain = parse_recipe("x = onnx(path='image.onnx') | text(onnx='text.onnx', tokenizer='../x/tokenizer.json')")
    step = create("transform", chain[1])
    assert step.onnx == str(towers.text)
    assert step.tokenizer == str(towers.text.parent.parent / "x" / "tokenizer.json")


@pytest.mark.parametrize("before", ["l2()", "pca(dim=8)", "text(onnx='a.onnx', tokenizer='a.json')"])
def test_a_text_step_must_directly_follow_the_feature(before):
    with pytest.raises(InputError, match=r"text must directly follow the feature of a chain\. Got text\("):
        parse_recipe(f"x = color() | {before} | text(onnx='text.onnx', tokenizer='tokenizer.json')")


def test_networks_of_different_dimensions_create_no_space(collection, towers, tmp_path):
    with pytest.raises(InputError, match="have 7 dimensions, those of the pictures have 24"):
        collection.add_clip(towers.image, write_text(tmp_path, dim=7), towers.tokenizer, **PIXELS)
    assert collection.spaces == []


@pytest.mark.parametrize(
    ("change", "words"), [({}, "sunset"), ({"mean": 0.0, "scale": 1000.0}, "night"), ({"template": "flower"}, "night")]
)
def test_words_that_do_not_fit_the_picture_best_create_no_space(collection, album, towers, change, words):
    with pytest.raises(InputError, match=r"at least as well as|template must be"):
        collection.add_clip(*towers, **PIXELS | change, picture=album / "night" / "night-001.jpg", words=words)
    assert collection.spaces == []


def test_the_words_of_the_picture_are_not_compared_with_themselves(collection, album, towers):
    given = {"picture": album / "sunset" / "sunset-002.jpg", "words": "Plate of food"}
    cosines = collection.add_clip(*towers, **PIXELS, **given).cosines
    assert "Plate of food" in cosines
    assert "plate of food" not in cosines
    assert "drawing" in cosines


def test_a_space_that_exists_is_only_checked_again(clipped, album, towers):
    given = {**PIXELS, "picture": album / "night" / "night-001.jpg"}
    assert clipped.add_clip(*towers, **given, words="night").cosines["night"] > 0.8
    with pytest.raises(InputError, match="at least as well as 'sunset'"):
        clipped.add_clip(*towers, **given, words="sunset")
    assert len(clipped.space("clip")) == 20
    with pytest.raises(InputError, match="already exists with another chain"):
        clipped.add_clip(*towers, **PIXELS, template="{}")


def rename_outputs(source, target, **names):
    """Write a network with renamed outputs, after an output that does not contain vectors."""
    model = onnx.load(source)
    first, inner = model.graph.output[0], model.graph.node[-2].output[0]
    for old, new in names.items():
        model.graph.node.add(op_type="Identity", input=[old], output=[new])
        first.name = new
    model.graph.output.insert(0, onnx.ValueInfoProto(name=inner))
    onnx.save(model, target)
    return target


def test_outputs_are_chosen_by_their_usual_names(collection, album, towers, tmp_path):
    """As in the files of SigLIP, whose first outputs are the vectors of all parts of a picture or a text."""
    image = rename_outputs(towers.image, tmp_path / "image.onnx", image_embeds="pooler_output")
    text = rename_outputs(towers.text, tmp_path / "text.onnx", text_embeds="pooler_output")
    given = {**PIXELS, "picture": album / "night" / "night-001.jpg", "words": "night"}
    report = collection.add_clip(image, text, towers.tokenizer, **given)
    assert all("output='pooler_output'" in spec for spec in report.chain)
    named = collection.add_clip(
        image, text, towers.tokenizer, **given, name="named", image_output="image_embeds", text_output="text_embeds"
    )
    assert named.cosines == pytest.approx(report.cosines)


def run(capsys, *words):
    code = cli.run([str(word) for word in words])
    return code, *capsys.readouterr()


def test_the_command_checks_the_network_creates_the_space_and_names_the_next_command(album, towers, tmp_path, capsys):
    path, picture = tmp_path / "c", album / "sunset" / "sunset-002.jpg"
    clip = ["-c", path, "clip", *towers, *OPTIONS]
    code, out, err = run(capsys, *clip, "--picture", picture, "--words", "flower")
    assert (code, out) == (2, "")
    assert "sunset-002.jpg fits '" in err
    assert not path.exists()
    assert "Check that size, mean and scale are those of the network" in err

    code, out, err = run(capsys, *clip, "--picture", picture, "--words", "sunset")
    assert code == 0
    assert out.splitlines()[0] == "clip: 24 dimensions."
    assert "0.9" in next(line for line in out.splitlines() if line.endswith("  sunset"))
    assert err == f"Next, run: lookalike -c {path} add FOLDER\n"

    assert run(capsys, "-c", path, "add", album, "--workers", "1")[0] == 0
    code, out, err = run(capsys, *clip, "--name", "other", "--template", "a {}", "--template", "{}", "--json")
    report = json.loads(out)
    assert (code, report["space"], report["dim"], report["cosines"]) == (0, "other", 24, {})
    assert report["chain"][1].endswith("template=['a {}', '{}'])")
    assert "To check them, add: --picture dog.jpg --words dog" in err
    assert f"Next, run: lookalike -c {path} refresh\n" in err
    with Collection(path) as collection:
        assert kinds_found(collection, "other", "checkers") == {"checkers"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mean", "1,2"], "--mean must be one number, or three"),
        (["--scale", "a"], "--scale must be one number, or three"),
        (["--words", "dog"], "Give both a picture and the words"),
        (["--picture", "none.jpg", "--words", "dog"], "No file or item named 'none.jpg'"),
        (["--name", "deep"], "name of a built-in recipe"),
    ],
)
def test_invalid_options_are_reported(towers, tmp_path, capsys, options, message):
    code, out, err = run(capsys, "-c", tmp_path / "c", "clip", *towers, *OPTIONS, *options)
    assert (code, out) == (2, "")
    assert message in err
    assert not (tmp_path / "c").exists()


def test_each_part_of_the_network_is_opened_once(album, towers, tmp_path, capsys, monkeypatch):
    opened = []
    session = onnxruntime.InferenceSession

    def open_session(*args, **options):
        opened.append(args[0])
        return session(*args, **options)

    monkeypatch.setattr(onnxruntime, "InferenceSession", open_session)
    check = ["--picture", album / "sunset" / "sunset-002.jpg", "--words", "sunset"]
    assert run(capsys, "-c", tmp_path / "c", "clip", *towers, *OPTIONS, *check)[0] == 0
    assert sorted(opened) == sorted([str(towers.image), str(towers.text)])


def test_mean_and_scale_can_differ_between_the_channels(towers, tmp_path, capsys):
    words = ["--mean", "1,2,3", "--scale", "4,5,6.5", "--size", "48", "--json"]
    code, out, _ = run(capsys, "-c", tmp_path / "c", "clip", *towers, *words)
    assert code == 0
    assert "mean=[1.0, 2.0, 3.0], scale=[4.0, 5.0, 6.5]" in json.loads(out)["chain"][0]
