import random
import re
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert import HEADS
from keras_bert.export import comparison, signatures, tflite
from keras_bert.export.code_points import encoded
from tests.conftest import shared_data
from tests.models import LABELS, VOCAB, randomize, tiny_bundle, tiny_config, tiny_features

TEXTS = ["hello world", "", "  ", "a good film, a bad world!", "商务大床房", "é 😀", "a" * 5000]


def written(bundle, folder, **options):
    """Writes and loads without the comparison that `export` makes."""
    tflite.write(bundle, folder, **options)
    return tflite.load(folder)


def random_texts(vocab, count):
    """Strings of the vocabulary's letters, of spaces and marks, and of any code point."""
    rng = random.Random(0)
    letters = sorted({letter for token in vocab for letter in token})
    ranges = [(32, 126), (0, 0x2FF), (0x300, 0x36F), (0x370, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF)]

    def letter():
        kind = rng.random()
        if kind < 0.7:
            return rng.choice(letters)
        return rng.choice(" \t\n\u3000.,'-#") if kind < 0.85 else chr(rng.randint(*rng.choice(ranges)))

    return ["".join(letter() for _ in range(rng.randint(0, 60))) for _ in range(count)]


@pytest.mark.parametrize("which", ["tiny", "bert-base-uncased"])
def test_code_points_give_the_ids_of_the_tokenizer(which, tmp_path):
    if which == "tiny":
        tokenizer = keras_bert.Tokenizer(VOCAB)
    else:
        tokenizer = keras_bert.Tokenizer.from_vocab(shared_data("vocab/bert-base-uncased/vocab.txt"))
    chars, length = 64, 24

    def ids(code_points):
        return tokenizer.code_points_to_features(code_points, length=length)

    specs = {"code_points": tf.TensorSpec([1, chars], tf.int32, name="code_points")}
    content = tflite.convert(ids, specs, [])
    (tmp_path / tflite.FILE).write_bytes(content)
    run = tflite.load(tmp_path)
    texts = random_texts(tokenizer.vocab, 1000)
    assert sum(len(text) > 30 for text in texts) > 300
    for text in texts:
        found = run("serving_default", {"code_points": encoded(text, chars)})
        expected = tokenizer([text], max_length=length)
        size = expected["token_ids"].shape[1]
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name][:, :size], values, repr(text))
        assert not found["padding_mask"][:, size:].any()


def test_code_points_are_answered_as_predict_answers_the_text(tmp_path):
    bundle = tiny_bundle("sequence_classifier")
    run = written(bundle, tmp_path, max_length=20)
    for text in TEXTS:
        answer = run("serving_default", {"code_points": encoded(text, 80)})
        (expected,) = keras_bert.predict(bundle, [text[:80]], max_length=20)
        assert LABELS[answer["label"][0]] == expected["label"]
        probabilities = list(expected["probabilities"].values())
        np.testing.assert_allclose(answer["probabilities"][0], probabilities, rtol=0, atol=2e-6)  # measured 2e-7
    assert (tmp_path / "labels.txt").read_text().splitlines() == LABELS
    assert (tmp_path / "vocab.txt").read_text(encoding="utf-8").splitlines() == VOCAB


def test_pairs_of_code_points(tmp_path):
    bundle = tiny_bundle("sentence_embedder")
    run = written(bundle, tmp_path, inputs="pair", max_length=20)
    for text, pair in zip(TEXTS, TEXTS[::-1], strict=True):
        given = {"code_points": encoded(text, 80), "code_points_pair": encoded(pair, 80)}
        expected = keras_bert.predict(bundle, [text[:80]], [pair[:80]], max_length=20)
        np.testing.assert_allclose(run("serving_default", given)["embedding"], expected, rtol=0, atol=2e-6)


def test_free_sizes_on_one_interpreter(tmp_path):  # P31
    bundle = tiny_bundle("sequence_classifier")
    run = written(bundle, tmp_path, inputs="free_ids")
    for batch, length in ((1, 4), (3, 7), (2, 2), (1, 40), (1, 4)):
        features = tiny_features(bundle.config, batch, length)
        logits = run("serving_default", features)["logits"]
        assert logits.shape == (batch, len(LABELS))
        np.testing.assert_allclose(logits, bundle.model.predict_on_batch(features), rtol=0, atol=1e-5)  # measured 5e-7


@pytest.mark.parametrize(
    ("options", "right", "wrong"),
    [
        ({"inputs": "ids", "max_length": 7}, (1, 7), [(1, 5), (2, 7), (1, 9)]),
        ({"inputs": "free_ids"}, (3, 40), [(1, 41), (2, 60)]),
    ],
)
def test_other_sizes_are_refused(options, right, wrong, tmp_path):  # P31
    bundle = tiny_bundle("sequence_classifier")
    run = written(bundle, tmp_path, **options)
    features = tiny_features(bundle.config, *right)
    for size in wrong:
        with pytest.raises(RuntimeError, match="failed to prepare"):  # before anything is computed
            run("serving_default", tiny_features(bundle.config, *size))
        logits = run("serving_default", features)["logits"]
        np.testing.assert_allclose(logits, bundle.model.predict_on_batch(features), rtol=0, atol=1e-5)


def test_inputs_go_by_name(tmp_path):  # P30
    bundle = tiny_bundle("sequence_classifier")
    run = written(bundle, tmp_path, inputs="ids", max_length=16)
    interpreter = tflite.Interpreter(str(tmp_path / tflite.FILE))
    order = [detail["name"].split("_", 2)[-1].split(":")[0] for detail in interpreter.get_input_details()]
    assert sorted(order) == sorted(bundle.model.input)
    assert order != list(bundle.model.input)  # who feeds by place feeds ids into the mask
    for text in [*TEXTS, "the film"]:
        features = tflite._padded(bundle.tokenizer([text], max_length=16), 16)
        logits = run("serving_default", dict(reversed(features.items())))["logits"]
        np.testing.assert_allclose(logits, bundle.model.predict_on_batch(features), rtol=0, atol=1e-5)
    assert len(tflite.probes(signatures.Keras(bundle))) >= 8  # texts that each export is compared on
    root = Path(__file__).resolve().parents[2]
    sources = [root / "README.md", *(root / "docs").glob("*.md"), *(root / "export").rglob("*.py")]
    assert len(sources) > 30
    for source in sources:
        assert not re.search(r"put_details\(\)\s*\[\d", source.read_text(encoding="utf-8")), source


def test_the_shortest_file_is_compared_too():
    probes = tflite.probes(signatures.Keras(tiny_bundle("sequence_classifier")), inputs="ids", max_length=3)
    assert {ids.shape for probe in probes for ids in probe.inputs.values()} == {(1, 3)}


@pytest.mark.parametrize("quantize", [None, "dynamic"])
def test_vectors_of_texts_of_all_lengths(quantize, tmp_path):  # P35
    sizes = {"hidden_size": 48, "intermediate_size": 96, "num_attention_heads": 4}
    bundle = keras_bert.create(tiny_config(**sizes), keras_bert.Tokenizer(VOCAB), "sentence_embedder")
    randomize(bundle.model)
    run = written(bundle, tmp_path, max_length=32, quantize=quantize)
    texts = [*TEXTS[:6], "film " * 9, "a world. " * 14]
    found = [run("serving_default", {"code_points": encoded(text, 128)})["embedding"][0] for text in texts]
    cosines = np.sum(found * keras_bert.predict(bundle, texts, max_length=32), axis=-1)
    np.testing.assert_allclose(np.linalg.norm(found, axis=-1), 1.0, rtol=0, atol=1e-6)
    assert cosines.min() > {None: 0.9999, "dynamic": 0.99}[quantize]


def test_ids_outside_the_model_are_clamped(tmp_path):
    bundle = tiny_bundle("sequence_classifier")
    run = written(bundle, tmp_path, inputs="ids", max_length=7)
    features = tiny_features(bundle.config, 1, 7)
    features["token_ids"][0, 2], features["segment_ids"][0, 3] = len(VOCAB) - 1, 0
    inside = run("serving_default", features)["logits"]
    features["token_ids"][0, 2], features["segment_ids"][0, 3] = 1_000_000, -1
    np.testing.assert_array_equal(run("serving_default", features)["logits"], inside)
    np.testing.assert_allclose(inside, bundle.model.predict_on_batch(clamped(features)), rtol=0, atol=1e-5)
    assert (tmp_path / "tokenizer.json").is_file()  # with ids in, somebody has to make them


def clamped(features):
    limits = {"token_ids": len(VOCAB), "segment_ids": 2, "padding_mask": 2}
    return {name: np.clip(ids, 0, limits[name] - 1) for name, ids in features.items()}


@pytest.mark.parametrize(
    ("head", "options", "hidden_act"),
    [
        ("sequence_classifier", {"inputs": "ids"}, "gelu_new"),
        pytest.param("sentence_embedder", {"inputs": "text", "max_length": 8}, "relu", marks=pytest.mark.slow),
        pytest.param("sentence_embedder", {"inputs": "free_ids"}, "gelu", marks=pytest.mark.slow),
    ],
)
def test_only_builtin_operations(head, options, hidden_act, tmp_path):  # P29
    config = tiny_config(hidden_act=hidden_act)
    labels = LABELS if head == "sequence_classifier" else None
    bundle = keras_bert.create(config, keras_bert.Tokenizer(VOCAB), head, labels)
    randomize(bundle.model)
    written(bundle, tmp_path, **options)
    operations = tflite.describe(tmp_path)["operations"]
    assert operations["FULLY_CONNECTED"] >= 12
    assert not [name for name in operations if name.startswith(("CUSTOM", "VAR_HANDLE", "READ_VARIABLE"))]
    weights = sum(weight.value.numpy().nbytes for weight in bundle.model.weights)
    assert (tmp_path / tflite.FILE).stat().st_size > weights


@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new"])
@pytest.mark.parametrize("head", [pytest.param(head, marks=pytest.mark.slow) for head in [*HEADS, None]])
def test_free_sizes_of_every_head_have_builtin_operations_only(head, hidden_act, tmp_path):  # P28, P29
    labels = LABELS if head is not None and HEADS[head].labelled else None
    config = tiny_config(hidden_act=hidden_act)
    bundle = keras_bert.create(config, keras_bert.Tokenizer(VOCAB), head, labels)
    randomize(bundle.model)
    run = written(bundle, tmp_path, inputs="free_ids")
    operations = tflite.describe(tmp_path)["operations"]
    assert not [name for name in operations if re.search("FLEX|CUSTOM|VAR_HANDLE|READ_VARIABLE", name.upper())]
    for size in ((1, 4), (3, 7)):
        probe = comparison.id_probe(signatures.Keras(bundle), "", comparison.random_features(bundle, *size))
        got, expected = run("serving_default", probe.inputs), probe.keras()
        assert got.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-5)


class Odd(keras.layers.Layer):
    """Does what no builtin operation of TFLite does."""

    def call(self, x):
        return tf.bitwise.bitwise_and(x, 3)


def test_foreign_operation_is_named_with_its_layer():  # P29
    x = keras.Input((2,), batch_size=1, dtype="int32")
    model = keras.Model(x, Odd(name="my_layer")(x))
    spec = {"x": tf.TensorSpec([1, 2], tf.int32, name="x")}
    sentence = r"^TFLite must have only builtin operations, got BitwiseAnd at \w+/my_layer_1/BitwiseAnd\.$"
    with pytest.raises(ValueError, match=sentence):
        tflite.convert(lambda x: {"y": model(x)}, spec, [])


@pytest.mark.parametrize(
    ("head", "options", "sentence"),
    [
        (
            "sequence_classifier",
            {"inputs": "words"},
            r"one of text, pair, ids, free_ids, mediapipe, got 'words'\.",
        ),
        ("pretraining_model", {"inputs": "text"}, "needs a tokenizer and a head that answers it"),
        (
            "sequence_classifier",
            {"max_length": 41},
            r"`max_length` must be from 3 to .* 40 positions, got 41\.",
        ),
        ("sequence_classifier", {"max_code_points": 0}, r"`max_code_points` must be a positive integer, got 0\."),
    ],
)
def test_wrong_options(head, options, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        tflite.write(tiny_bundle(head), tmp_path, **options)
