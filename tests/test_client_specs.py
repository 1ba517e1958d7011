"""Specs that clients send to the service: accepted and refused ones; none of them opens a file."""

import inspect
import io
import struct
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx.parser import parse_model
from PIL import Image

from lookalike import Collection
from lookalike.collection.specs import check_client_fit, check_client_spec, is_open
from lookalike.errors import InputError, RefusedSpecError, SpecError, UnknownNameError
from lookalike.features.histograms import Color
from lookalike.recipes import RECIPES
from lookalike.registry import COMPONENTS, Spec, component, create, parse
from lookalike.server import jobs
from lookalike.server.job_worker import KINDS
from lookalike.types import Matches, OneOf
from serving import copy_shelf, error, running

REGISTERED = [(kind, name) for kind in COMPONENTS for name in COMPONENTS[kind]]

ACCEPTED = [
    "deep",
    "größe",  # the name of a space
    "slem()",
    "pca(dim=64)",
    "codes(bits=64)",
    "codes(iterations=5)",
    "itq(bits=32)",
    "kernelslem(kernel='poly', rank=None)",
    "mine = color() | pca(dim=32) | l2",
    "größe = color | pca(dim=32, whiten=-0.5)",
    "mine = sift() | vlad(k=8)",
    "mine = sift(points='harris', root=False) | fisher(k=4, pyramid='1x1, 2x2') | itq()",
    "mine = fisher(local=['sift()', 'colorstats()'])",
    "mine = join(parts=['hsv()', \"join(parts=('color()',))\"])",
    "mine = efficientnet(pool='rmac', threads=2)",
    "mine = dfk(local='sift()') | dfk(learned='fixed')",
]

REFUSED = [
    "onnx(path='{file}')",
    "x = onnx(path='{file}')",
    "x = onnx('{file}')",
    "x = onnx()",
    "x = onnx(size=4)",
    "x\t=\fonnx\\\n(\\\npath\\\n=\\\n'{file}')",
    "x = onnx(pat\\\nh='{file}')",
    "x = ( onnx ) ( path = ( '{file}' ) )",
    "x = onnx(**{{'path': '{file}'}})",
    "x = onnx(path=b'{file}')",
    "x = onnx(path=f'{file}')",
    "x = onnx(path=u'' r'{file}' '')",
    "x = onnx(path='{file}' + '')",
    "x = onnx(path=['{file}'])",
    "x = color() | onnx(path='{file}')",
    "x = onnxmaps(path='{file}') | vlad(k=8)",
    "x = vlad(local=\"onnxmaps(path='{file}')\")",
    "x = vlad(local='onnxm\\x61ps(p\\141th=\"{file}\")')",
    "x = vlad(local='\\N{{LATIN SMALL LETTER O}}nnxmaps(path=\"{file}\")')",
    "x = vlad(local=\"onnxmaps\" '(pa' r'th=\"{file}\")')",
    "x = fisher(local=('sift()', \"onnxmaps(path='{file}')\"))",
    "x = join(parts=[\"onnx(path='{file}')\"])",
    "x = join(parts=['color()', 'onnx(pa\\x74h=\"{file}\")'])",
    "x = join(parts=[['onnx(pa\\u0074h=\"{file}\")']])",
    'x = join(parts=["join(parts=[\'onnx(pa\\\\x74h=\\"{file}\\")\'])"])',
    "x = join(parts={{'onnx(path=\"{file}\")'}})",
    "x = join(parts={{'onnx(path=\"{file}\")': 1}})",
    "x = join(parts={{['{file}']}})",
    "x = join(parts=[b'onnx(path=\"{file}\")'])",
    "x = join(parts='{file}')",
    "x = join(parts=['{file}'])",
    "x = vlad(pyramid='{file}')",
    "x = efficientnet(pool='{file}')",
    "x = efficientnet(pool='GEM')",
    "x = color() | pca(dim='{file}')",
    "x = color() | pca(dim=2j)",
    "x = color() | pca(dim=...)",
    "x = color() | flat()",
    "x = ann(kind='{file}')",
    "text(onnx='{file}', tokenizer='{file}')",
    "x = color() | text(onnx='{file}', tokenizer='tokenizer.json')",
    "x = color() | text(onnx='text.onnx', tokenizer='{file}') | l2()",
    "x = color() | text(template='{file}')",
    "x = text(onnx='{file}', tokenizer='{file}')",
    "x = vlad(local=\"text(onnx='{file}', tokenizer='{file}')\")",
    "pca(path='{file}')",
    "codes(path='{file}', bits='{file}')",
    "codes(path='{file}')",
    "codes(bits={{'{file}'}})",
    "kernelslem(kernel='{file}')",
    "flat()",
    "x = codes()",
    # Names that Python would read as onnx(path=…)
    "onnx(ｐath='{file}')",
    "x = onnx(ｐath='{file}')",
    "x = ｏｎｎｘ(path='{file}')",
    "x = 𝓸𝓷𝓷𝔁(𝐩𝐚𝐭𝐡='{file}')",
    "x = onnx(pаth='{file}')",  # a Cyrillic а
    "x = join(parts=[\"onnx(ｐath='{file}')\"])",
    "x = join(parts=['onnx(\\uff50ath=\"{file}\")'])",
    "x = vlad(ｌocal=\"onnxmaps(path='{file}')\")",
    "x = pca(ｄim=8)",
]


def hostile(spec, file="/etc/passwd"):
    """Return one of these specs with a file name inserted."""
    return spec.format(file=file)


@pytest.mark.parametrize("text", ACCEPTED)
def test_a_spec_of_registered_components_and_plain_values_is_accepted(text):
    check_client_fit(text)


@pytest.mark.parametrize("text", [f"mine = {' | '.join(specs)}" for specs in RECIPES.values()])
def test_the_chain_of_every_recipe_is_accepted(text):
    check_client_fit(text)


@pytest.mark.parametrize("spec", REFUSED)
def test_a_spec_that_could_name_a_file_is_refused(spec):
    with pytest.raises((RefusedSpecError, SpecError, UnknownNameError)):
        check_client_fit(hostile(spec))


def test_the_refusal_is_the_same_whether_a_file_exists_or_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.onnx").write_bytes(b"")
    for spec in REFUSED:
        said = []
        for file in ("a.onnx", "b.onnx"):
            with pytest.raises(InputError) as caught:
                check_client_fit(hostile(spec, file))
            said.append((type(caught.value), str(caught.value).replace(file, "")))
        assert said[0] == said[1]


@pytest.mark.parametrize(("kind", "name"), REGISTERED)
def test_no_option_of_any_component_accepts_text_that_could_be_a_file(kind, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in ("net.onnx", "words", "1x1"):
        (tmp_path / file).write_bytes(b"")
    for option in inspect.signature(component(kind, name)).parameters.values():
        for text in ("net.onnx", "words", str(tmp_path / "words"), "./words", "~", "", "gem\0", "1x1\n"):
            for value in (text, [text], (1, [text]), text.encode(), {text}, {text: text}, Path(text)):
                with pytest.raises(InputError):
                    check_client_spec(kind, Spec(name, {option.name: value}))


def test_exactly_the_components_with_free_text_are_closed_to_clients():
    closed = {(kind, name) for kind, name in REGISTERED if not is_open(kind, name)}
    assert closed == {
        ("feature", "imported"),
        ("feature", "onnx"),
        ("local", "onnxmaps"),
        ("transform", "text"),
        ("index", "ann"),
        ("index", "shortlisted"),
    }


@pytest.mark.parametrize(("kind", "name"), REGISTERED)
def test_components_accept_only_known_words_pyramids_and_specs_as_text(kind, name):
    for option in inspect.signature(component(kind, name)).parameters.values():
        for rule in getattr(option.annotation, "__metadata__", ()):
            if isinstance(rule, OneOf):
                assert option.default in rule.words
                for word in rule.words:
                    check_client_spec(kind, Spec(name, {option.name: word}))
                    create(kind, Spec(name, {option.name: word}))
            if isinstance(rule, Matches):
                assert (option.name, rule.pattern) == ("pyramid", "[0-9x, ]{1,200}")  # no letter except x, no / or dot


class AnyText(Color):
    def __init__(self, weights: str = "default"):
        self.weights = weights


class AnyPath(Color):
    def __init__(self, size: int = 1, weights: Path | None = None):
        self.weights = weights


class NoType(Color):
    def __init__(self, weights=None):
        self.weights = weights


class TypeAsText(Color):
    def __init__(self, weights: "int" = 1):
        self.weights = weights


class AnyName(Color):
    def __init__(self, **weights: int):
        self.weights = weights


@pytest.mark.parametrize("added", [AnyText, AnyPath, NoType, TypeAsText, AnyName])
def test_a_new_component_is_closed_until_all_its_options_are_declared_plain(added, monkeypatch):
    monkeypatch.setitem(COMPONENTS["feature"], "added", f"{added.__module__}:{added.__qualname__}")
    try:
        create("feature", "added()")
        for text in ("x = added()", "x = added(size=2)", "x = added(weights=1)", "x = join(parts=['added()'])"):
            with pytest.raises(RefusedSpecError, match="can name files"):
                check_client_fit(text)
    finally:
        component.cache_clear()


def lookalikes(letter):
    """Return the characters that Python's parser normalises to this letter."""
    return [chr(code) for code in range(128, 0x1FFFF) if unicodedata.normalize("NFKC", chr(code)) == letter]


ALIKE = {letter: lookalikes(letter) for letter in "onxpath"}


@given(st.data())
def test_a_name_in_look_alike_letters_is_refused_everywhere(data):
    def write(word):
        return "".join(data.draw(st.sampled_from([letter, *ALIKE[letter]])) for letter in word)

    spec = f"{write('onnx')}({write('path')}='/etc/passwd')"
    if not spec.isascii():
        with pytest.raises(SpecError):
            parse(spec)
    for text in (spec, f"x = {spec}", f"x = color() | {spec}", f"x = join(parts=[{spec!r}])"):
        with pytest.raises((RefusedSpecError, SpecError)):
            check_client_fit(text)


@given(st.text(max_size=60))
def test_any_text_from_a_client_is_either_accepted_or_refused(text):
    for spec in (text, f"x = {text}", f"x = join(parts=[{text!r}])", f"x = vlad(local={text!r})"):
        try:
            check_client_fit(spec)
        except InputError:
            continue
        assert "onnx(" not in unicodedata.normalize("NFKC", spec)


@pytest.fixture(scope="module")
def service(shelf, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, running(copy_shelf(shelf, tmp_path_factory.mktemp("specs"))) as found:
        patch.setattr(jobs, "_START", 'print(\'{"result": {}, "message": "Well done."}\', flush=True)')
        yield found


def ask(service, spec):
    return service.client.post("/api/v1/jobs", json={"kind": "fit", "spec": spec})


def job_ids(service):
    return [job["id"] for job in service.get("/jobs")["jobs"]]


@pytest.mark.parametrize("spec", ACCEPTED)
def test_the_service_creates_a_job_for_an_accepted_spec(service, spec):
    answer = ask(service, spec)
    assert answer.status_code == 202, answer.text
    assert answer.json()["arguments"] == {"spec": spec}


def test_the_service_creates_no_job_for_a_refused_spec(service):
    before = job_ids(service)
    for spec in REFUSED:
        assert ask(service, hostile(spec)).status_code in (403, 422)
    for spec in ("onnx(path='/etc/passwd')", "x = join(parts=['onnx(pa\\x74h=\"/etc/passwd\")'])"):
        assert "passwd" not in error(ask(service, spec), 403, "refused")
    for spec in ("onnx(ｐath='/etc/passwd')", "x = join(parts=[\"onnx(ｐath='/etc/passwd')\"])"):
        assert "ASCII" in error(ask(service, spec), 422, "input")
    assert job_ids(service) == before


def test_the_name_of_a_space_is_looked_up_and_never_parsed(service):
    item = service.get("/items", params={"limit": 1})["items"][0]["id"]
    for spec in ("onnx(path='/etc/passwd')", "x = onnx(path='/etc/passwd')"):
        for answer in (
            service.client.post("/api/v1/search", json={"examples": [{"id": item}], "space": spec}),
            service.client.post("/api/v1/sessions", json={"examples": [{"id": item}], "space": spec}),
            service.client.get("/api/v1/map", params={"space": spec}),
            service.client.get("/api/v1/duplicates", params={"tier": "alike", "space": spec}),
        ):
            assert "No space named" in error(answer, 422, "input")


def field(number, data):
    """Return a protobuf field of bytes."""
    head = []
    for value in (number << 3 | 2, len(data)):
        while value > 127:
            head.append(value & 127 | 128)
            value >>= 7
        head.append(value)
    return bytes(head) + data


def write_both():
    """Return a file that is both a BMP of 4 × 4 pixels and an ONNX network with an input of 4 × 4 pixels.

    Protobuf reads "BM" as the header of an `opset_import` of 77 bytes, and the BMP headers as an unknown field.
    """
    network = parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> net (float[n, 3, 4, 4] x) => (float[n, 48] y) { y = Flatten (x) }'
    ).SerializeToString()
    pixels = field(2000, bytes(48))
    place = 2 + 77 + len(network) + len(pixels) - 48
    headers = struct.pack("<IIIiiHHIIiiII", 0, place, 40, 4, 4, 1, 24, 0, 48, 0, 0, 0, 0)
    opset = b"\x1a\x32\0\0" + headers + field(1, b"com.microsoft") + b"\x10\x01"
    return b"BM" + opset + field(3, bytes(77 - len(opset) - 2)) + network + pixels


def test_an_upload_that_is_both_a_picture_and_a_network_is_only_used_as_a_picture(service, tmp_path):
    data = write_both()
    assert Image.open(io.BytesIO(data)).size == (4, 4)
    (tmp_path / "both.bmp").write_bytes(data)
    feature = create("feature", Spec("onnx", {"path": str(tmp_path / "both.bmp"), "size": 4}))
    assert feature.extract([np.ones((4, 4, 3), np.uint8)]).shape == (1, 48)  # on the command line it is a network

    sent = service.client.post("/api/v1/uploads/files", files=[("files", ("both.bmp", data))])
    assert sent.status_code == 202
    (kept,) = (service.folder / "uploads").iterdir()
    assert kept.read_bytes() == data
    before = job_ids(service)
    for spec in REFUSED:
        assert ask(service, hostile(spec, str(kept))).status_code in (403, 422)
    assert job_ids(service) == before


def test_the_process_of_a_job_refuses_the_same_specs_as_the_service(shelf, tmp_path):
    """An older version may have written the job."""
    file = tmp_path / "both.bmp"
    file.write_bytes(write_both())
    with Collection(copy_shelf(shelf, tmp_path)) as collection:
        for spec in ("x = onnx(path='{file}', size=4)", "x = join(parts=['onnx(pa\\x74h=\"{file}\", size=4)'])"):
            with pytest.raises(RefusedSpecError):
                KINDS["fit"](collection, {"spec": hostile(spec, str(file))}, lambda *_: None)
        assert [space.name for space in collection.spaces] == ["color"]
        assert KINDS["fit"](collection, {"spec": "x = color() | pca(dim=8)"}, lambda *_: None)[0] == {
            "fitted": {"x": 60}
        }
