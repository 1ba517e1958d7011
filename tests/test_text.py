"""The transform `text`: vectors of texts that find pictures."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tokenizers import Tokenizer

from lookalike.encode import Text
from lookalike.errors import InputError, MissingError
from lookalike.features import Onnx
from lookalike.images.demo import draw
from lookalike.registry import create, restore, spec_of, state_of
from towers import DIM, KINDS, PIXELS, TEXT, WORDS, make_tokenizer, word_vectors, write_text, write_tokenizer

E = word_vectors()


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def total(words):
    """The vector of a prompt, given as words that are in the vocabulary: that of the text network before scaling."""
    return sum(E[WORDS.index(word)] for word in ["[START]", *words.split(), "[END]"])


@pytest.fixture
def tokenizer(towers):
    return towers.tokenizer


def test_words_find_pictures_of_their_kind_that_the_network_was_not_trained_on(towers):
    drawn = [(kind, draw(kind, np.random.default_rng([99, i]))) for kind in KINDS for i in range(3)]
    X = Onnx(towers.image, **PIXELS).extract([pixels for _, pixels in drawn])
    Q = Text(towers.text, towers.tokenizer).fit(X).encode(KINDS)
    for kind, cosines in zip(KINDS, Q @ X.T, strict=True):
        assert [drawn[i][0] for i in np.argsort(-cosines)[:3]] == [kind] * 3


def test_pictures_are_only_scaled_to_unit_length_and_the_files_are_not_needed_for_that():
    X = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    text = Text("missing.onnx", "missing.json")
    np.testing.assert_allclose(text.transform(X), unit(X), atol=1e-6)


def test_a_restored_transform_loads_the_network_when_it_gets_a_text(towers):
    text = Text(towers.text, towers.tokenizer, template=["a {}", "photo of {}"]).fit(np.eye(DIM, dtype=np.float32))
    again = restore("transform", spec_of(text), state_of(text))
    np.testing.assert_array_equal(again.encode(["sunset"]), text.encode(["sunset"]))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(text)).encode(["sunset"]), text.encode(["sunset"]))
    assert create("transform", spec_of(text)).get_params() == text.get_params()


def test_the_text_replaces_the_braces_of_the_prompt(towers):
    Q = Text(towers.text, towers.tokenizer).encode(["flower", "night sunset", "{} flower"])
    expected = [total("a photo of a flower"), total("a photo of a night sunset"), total("a photo of a [UNK] flower")]
    np.testing.assert_allclose(Q, unit(np.stack(expected)), atol=1e-6)
    np.testing.assert_allclose(
        Text(towers.text, towers.tokenizer, template="{}").encode(["flower"])[0], unit(total("flower")), atol=1e-6
    )


def test_several_prompts_are_averaged(towers):
    Q = Text(towers.text, towers.tokenizer, template=("a photo of a {}", "picture {}")).encode(["flower", "night"])
    for row, word in zip(Q, ["flower", "night"], strict=True):
        mean = unit(total(f"a photo of a {word}")) + unit(total(f"picture {word}"))
        np.testing.assert_allclose(row, unit(mean), atol=1e-6)


def test_no_texts_give_no_vectors(towers):
    assert Text(towers.text, towers.tokenizer).encode([]).shape == (0, DIM)


MASK = ", int64[n, t] attention_mask"
PLAIN = (
    TEXT.replace(MASK, "").replace("(attention_mask)", "(sign)").replace("tokens =", "sign = Sign (input_ids) tokens =")
)
"""A network without a mask, for which tokens with the id 0 do not count."""


@pytest.mark.parametrize(
    "graph",
    [
        TEXT,
        TEXT.replace("int64[n, t]", "int32[n, t]"),
        TEXT.replace("int64[n, t]", "int64[1, t]"),
        TEXT.replace("int64[n, t]", "int64[3, t]"),
        TEXT.replace("int64[n, t]", "int64[n, 9]"),
        TEXT.replace("int64[n, t]", "int64[2, 9]"),
        TEXT.replace(MASK, MASK + ", int64[n, t] token_type_ids"),
        PLAIN,
        PLAIN.replace("input_ids", "tokens_of_text"),
        TEXT.replace("float[n, d]", "float16[n, d]").replace(
            "text_embeds = ReduceSum <keepdims = 0> (masked, one)",
            "sum = ReduceSum <keepdims = 0> (masked, one) text_embeds = Cast <to = 10> (sum)",
        ),
        TEXT.replace("(float[n, d] text_embeds)", "(float[n, t, d] masked, float[n, d] text_embeds)"),
        TEXT.replace("(float[n, d] text_embeds)", "(float[n, t] numbers, float[n, d] text_embeds)"),
        TEXT.replace("text_embeds", "anything"),
    ],
    ids=[
        "dynamic",
        "int32",
        "one text",
        "batches of three",
        "nine tokens",
        "two texts of nine tokens",
        "token types",
        "no mask",
        "another input name",
        "half precision",
        "an output with three axes first",
        "the output with the usual name",
        "another output name",
    ],
)
def test_inputs_and_outputs_of_the_usual_exports_are_recognised(tmp_path, graph):
    path = write_text(tmp_path, graph)
    text = Text(path, write_tokenizer(tmp_path), pad=0)
    words = ["flower", "night", "sunset", "a photo of a flower"]
    expected = unit(np.stack([total(f"a photo of a {word}") for word in words]))
    expected[3] = unit(total("a photo of a a photo of" if "9]" in graph else "a photo of a a photo of a flower"))
    np.testing.assert_allclose(text.encode(words), expected, atol=1e-3 if "float16" in graph else 1e-6)


def test_an_output_can_be_chosen_by_name_even_inside_the_network(tmp_path, tokenizer):
    graph = TEXT.replace("(float[n, d] text_embeds)", "(float[n, d] end)").replace(
        "text_embeds = ReduceSum <keepdims = 0> (masked, one)",
        "sum = ReduceSum <keepdims = 0> (masked, one) end = Neg (sum)",
    )
    path = write_text(tmp_path, graph)
    expected = unit(total("a photo of a night"))
    np.testing.assert_allclose(Text(path, tokenizer, output="sum").encode(["night"])[0], expected, atol=1e-6)
    np.testing.assert_allclose(Text(path, tokenizer).encode(["night"])[0], -expected, atol=1e-6)


def test_a_file_with_both_parts_can_be_used_for_texts(tmp_path, tokenizer):
    graph = TEXT.replace("(int64[n, t] input_ids", "(float[n, 3, 8, 8] image, int64[n, t] input_ids").replace(
        "(float[n, d] text_embeds)", "(float[n, 192] image_embeds, float[n, d] text_embeds)"
    )
    path = write_text(tmp_path, graph.replace("tokens =", "image_embeds = Flatten (image) tokens ="))
    Q = Text(path, tokenizer, output="text_embeds").encode(["night"])
    np.testing.assert_allclose(Q[0], unit(total("a photo of a night")), atol=1e-6)
    with pytest.raises(InputError, match="Export only the text part of the network, or set output to its vectors"):
        Text(path, tokenizer).encode(["night"])


def count_tokens(folder, tokenizer, **options):
    """Return how many times each word is in the input of the network, for the text `flower flower …`."""
    graph = "net (int64[n, t] input_ids) => (float[n, d] end) <int64[1] one = {1}> "
    graph += "{ tokens = Gather (words, input_ids) end = ReduceSum <keepdims = 0> (tokens, one) }"
    path = write_text(folder, graph, dim=len(WORDS))
    text = Text(path, write_tokenizer(folder, tokenizer), template="{}", **options)
    row = np.linalg.solve(word_vectors(len(WORDS)).T, text.encode(["flower " * 500])[0])
    counts = np.rint(row / row[WORDS.index("[START]")])
    return {word: count for word, count in zip(WORDS, counts, strict=True) if count}


def test_long_texts_are_truncated_before_the_end_token(tmp_path):
    assert count_tokens(tmp_path, make_tokenizer()) == {"[START]": 1, "flower": 75, "[END]": 1}
    assert count_tokens(tmp_path, make_tokenizer(), length=9) == {"[START]": 1, "flower": 7, "[END]": 1}
    declares_truncation, declares_padding = make_tokenizer(), make_tokenizer()
    declares_truncation.enable_truncation(12)
    declares_padding.enable_padding(length=11)
    assert count_tokens(tmp_path, declares_truncation) == {"[START]": 1, "flower": 10, "[END]": 1}
    assert count_tokens(tmp_path, declares_truncation, length=9) == {"[START]": 1, "flower": 7, "[END]": 1}
    assert count_tokens(tmp_path, declares_padding) == {"[START]": 1, "flower": 9, "[END]": 1}


def padding_of(folder, tokenizer, **options):
    """Return the words that fill a text of one word to eight tokens, before and after it."""
    graph = "net (int64[n, 8] input_ids) => (float[n, 8] end) { end = Cast <to = 1> (input_ids) }"
    text = Text(write_text(folder, graph), write_tokenizer(folder, tokenizer), template="{}", **options)
    row = text.encode(["night"])[0]
    words = [WORDS[i] for i in np.rint(row * WORDS.index("night") / row.max()).astype(int)]
    return words[: words.index("[START]")], words[words.index("[END]") + 1 :]


def test_short_texts_are_filled_with_the_token_of_the_tokenizer_or_the_one_of_the_options(tmp_path):
    declares = make_tokenizer()
    declares.enable_padding(pad_id=WORDS.index("[UNK]"), direction="left")
    no_padding = Tokenizer.from_str(make_tokenizer().to_str().replace('"[PAD]":', '"nothing":'))
    assert padding_of(tmp_path, make_tokenizer()) == ([], ["[PAD]"] * 5)
    assert padding_of(tmp_path, make_tokenizer(), pad=WORDS.index("a")) == ([], ["a"] * 5)
    assert padding_of(tmp_path, declares) == (["[UNK]"] * 5, [])
    assert padding_of(tmp_path, no_padding) == ([], ["[END]"] * 5)


def test_it_is_thread_safe(towers):
    text = Text(towers.text, towers.tokenizer)
    with ThreadPoolExecutor(4) as pool:
        for Q in pool.map(lambda _: text.encode(["night"]), range(8)):
            np.testing.assert_allclose(Q[0], unit(total("a photo of a night")), atol=1e-6)


def test_a_network_of_another_dimension_is_rejected_by_fit(towers):
    with pytest.raises(InputError, match=f"have {DIM} dimensions, those of the pictures have 7. Use both parts"):
        Text(towers.text, towers.tokenizer).fit(np.zeros((3, 7), np.float32))


def test_a_network_that_was_replaced_by_one_of_another_dimension_is_rejected(tmp_path, tokenizer):
    text = Text(write_text(tmp_path, dim=7), tokenizer).fit(np.zeros((3, 7), np.float32))
    again = restore("transform", spec_of(text), state_of(text))
    write_text(tmp_path, dim=9)
    with pytest.raises(InputError, match="have 9 dimensions, those of the pictures have 7"):
        again.encode(["night"])


@pytest.mark.parametrize(
    ("network", "tokenizer", "message"),
    [
        ("none.onnx", "tokenizer.json", r"The network .*none\.onnx does not exist"),
        ("text.onnx", "none.json", r"The tokenizer .*none\.json does not exist"),
    ],
)
def test_a_missing_file_is_named_in_the_error(towers, network, tokenizer, message):
    folder = towers.text.parent
    with pytest.raises(MissingError, match=message):
        Text(folder / network, folder / tokenizer).encode(["night"])


@pytest.mark.parametrize("data", [b"", b"not a network", b"{}", b"[1, 2]", bytes(range(256))])
def test_files_of_another_format_are_rejected(towers, tmp_path, data, capfd):
    path = tmp_path / "other"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"Cannot load .*other as an ONNX file"):
        Text(path, towers.tokenizer).encode(["night"])
    with pytest.raises(InputError, match=r"Cannot load .*other as a tokenizer: .*tokenizer\.json"):
        Text(towers.text, path).encode(["night"])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ("net (float[n, 3, 8, 8] x) => (float[n, 192] row) { row = Flatten (x) }", "Got x .*Export only the text part"),
        ("net (float[n, t] x) => (float[n, t] row) { row = Relu (x) }", r"must have the input input_ids"),
        (TEXT.replace("input_ids", "ids"), r"must have the input input_ids"),
        (TEXT.replace("attention_mask", "position_ids"), r"Got input_ids .*position_ids"),
        (TEXT.replace("<keepdims = 0>", "").replace("[n, d]", "[n, o, d]"), r"no output .*text_embeds \(1, 1, 24\)"),
        (TEXT.replace("(masked, one)", "(masked)").replace("[n, d]", ""), r"no output .*text_embeds \(\)"),
        (TEXT.replace("masked = Mul (tokens, mask)", "masked = Div (tokens, mask)"), "returned NaN or infinity"),
    ],
)
def test_a_network_that_does_not_fit_texts_is_rejected_with_the_reason(tmp_path, tokenizer, graph, message, capfd):
    with pytest.raises(InputError, match=message):
        Text(write_text(tmp_path, graph), tokenizer).encode(["night"])
    assert capfd.readouterr() == ("", "")


def test_a_tokenizer_of_another_network_is_rejected(tmp_path, capfd):
    tokenizer = make_tokenizer()
    tokenizer.add_tokens(["unheard"])
    text = Text(write_text(tmp_path), write_tokenizer(tmp_path, tokenizer))
    with pytest.raises(InputError, match=r"fails on texts of 77 tokens\. Check length, and that .* belongs to this"):
        text.encode(["unheard"])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("declared", ["truncation", "padding"])
def test_a_length_that_would_fill_the_memory_is_rejected(tmp_path, declared):
    tokenizer = make_tokenizer()
    tokenizer.enable_truncation(10**9) if declared == "truncation" else tokenizer.enable_padding(length=10**9)
    with pytest.raises(InputError, match=r"declares a length of 1000000000 tokens; the maximum is 10000\. Set length"):
        Text(write_text(tmp_path), write_tokenizer(tmp_path, tokenizer)).encode(["night"])


def test_a_tokenizer_that_refers_to_a_missing_token_is_rejected(tmp_path):
    path = write_tokenizer(tmp_path)
    path.write_text(path.read_text().replace('"id": "[START]"', '"id": "[OTHER]"', 1))
    with pytest.raises(InputError, match=r"Cannot load .*tokenizer\.json as a tokenizer: "):
        Text(write_text(tmp_path), path).encode(["night"])


def test_a_length_that_differs_from_that_of_the_network_is_rejected(tmp_path, tokenizer):
    path = write_text(tmp_path, TEXT.replace("int64[n, t]", "int64[n, 9]"))
    with pytest.raises(InputError, match=r"needs 9 tokens\. Got length=8"):
        Text(path, tokenizer, length=8).encode(["night"])


@pytest.mark.parametrize(
    "options",
    [
        {"template": "a photo"},
        {"template": []},
        {"template": ["a {}", "photo"]},
        {"template": [3]},
        {"length": 0},
        {"length": 7.5},
        {"length": 10**9},
        {"pad": -1},
        {"pad": "[PAD]"},
        {"pad": 2**40},
        {"output": 3},
        {"output": "unknown"},
    ],
)
def test_invalid_options_are_rejected_by_fit(towers, options):
    with pytest.raises(InputError, match=next(iter(options)) + "|No tensor named 'unknown'"):
        Text(towers.text, towers.tokenizer, **options).fit(np.eye(DIM, dtype=np.float32))


@pytest.mark.parametrize("texts", ["night", [3], [b"night"]])
def test_texts_must_be_a_list_of_strings(towers, texts):
    with pytest.raises(InputError, match="texts must be a list of strings"):
        Text(towers.text, towers.tokenizer).encode(texts)


def test_text_that_is_not_valid_unicode_is_an_input_error(towers):
    with pytest.raises(InputError):
        Text(towers.text, towers.tokenizer).encode(["\udcff"])


def test_a_missing_package_is_reported_with_the_command_that_installs_it(towers, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    text = Text(towers.text, towers.tokenizer)
    assert text.transform(np.ones((1, 4), np.float32)).shape == (1, 4)
    with pytest.raises(MissingError, match=r"pip install 'lookalike\[text\]'"):
        text.encode(["night"])


def test_the_tokenizer_does_not_load_the_client_of_a_model_hub(towers):
    code = (
        "import sys, tokenizers;"
        "tokenizers.Tokenizer.from_file(sys.argv[1]).encode('night');"
        "sys.exit('huggingface_hub' in sys.modules or 'httpx2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, towers.tokenizer], check=False).returncode == 0
