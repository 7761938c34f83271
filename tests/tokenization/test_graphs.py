"""The tokenizer in TensorFlow graphs and as fixed-shape arrays: ids equal to Python's everywhere."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.tokenization import TextPreprocessor
from tests.tokenization import made, small

HARD = ["", " ", b"\xff\xfe", "a" * 5000, "unaffable 中国 caf\u0301e", "가각 \u302e\u0323a", "[SEP] [MASK]the"]


@pytest.fixture(scope="module")
def tokenizer():
    return made.of_small()


@pytest.fixture(scope="module")
def texts():
    return small.hard_strings(300, seed=8)


def code_points(texts, width):
    array = np.zeros((len(texts), width), "int32")
    for row, text in zip(array, texts, strict=True):
        row[: len(text)] = [ord(char) for char in text]
    return array


def check_equal(got, want):
    for name, array in want.items():
        got_array = np.asarray(got[name])
        assert got_array.dtype == np.int32
        assert np.array_equal(got_array[:, : array.shape[1]], array), name
        assert not got_array[:, array.shape[1] :].any(), name


@pytest.mark.parametrize("allowed", [(), ("[MASK]", "[SEP]")])
def test_eager_strings(tokenizer, allowed):
    pairs = HARD[::-1]
    got = tokenizer.strings_to_features(tf.constant(HARD), tf.constant(pairs), 24, allowed)
    check_equal(got, tokenizer(HARD, pairs, 24, allowed))
    check_equal(tokenizer.strings_to_features(tf.constant(HARD)), tokenizer(HARD))


def test_tf_data_with_pairs_and_ragged(tokenizer, texts):
    pairs = texts[::-1]
    dataset = tf.data.Dataset.from_tensor_slices(([t.encode() for t in texts], [t.encode() for t in pairs])).batch(64)
    features = dataset.map(lambda a, b: tokenizer.strings_to_features(a, b, 20), num_parallel_calls=2)
    for start, batch in zip(range(0, len(texts), 64), features, strict=True):
        check_equal(batch, tokenizer(texts[start : start + 64], pairs[start : start + 64], 20))
    ragged = dataset.map(lambda a, b: tokenizer.strings_to_ragged(a))
    rows = [row for batch in ragged for row in batch.to_list()]
    assert rows == [encoding.ids[1:-1] for encoding in tokenizer.encode_batch(texts)]


def test_an_empty_batch(tokenizer):
    features = tokenizer.strings_to_features(tf.zeros([0], tf.string))
    assert features["token_ids"].shape[0] == 0
    assert tokenizer.strings_to_ragged(tf.zeros([0], tf.string)).to_list() == []


def test_bad_shapes_are_named(tokenizer):
    with pytest.raises(ValueError, match=r"must have shape \(B,\), got \(1, 1\)"):
        tokenizer.strings_to_features(tf.constant([["the"]]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have equal lengths"):
        tokenizer.strings_to_features(tf.constant(["a", "b", "c"]), tf.constant(["a"]))


def test_saved_model_in_a_process_without_this_package(tokenizer, tmp_path, texts):
    module = tf.Module()
    spec = tf.TensorSpec([None], tf.string, name="texts")
    module.features = tf.function(lambda x: tokenizer.strings_to_features(x, None, 20), input_signature=[spec])
    tf.saved_model.save(module, tmp_path / "model", signatures=module.features)
    np.savez(tmp_path / "texts.npz", texts=np.array([text.encode() for text in texts], "O"))
    program = (
        "import sys, numpy as np, tensorflow as tf;"
        "model = tf.saved_model.load(sys.argv[1] + '/model').signatures['serving_default'];"
        "texts = np.load(sys.argv[1] + '/texts.npz', allow_pickle=True)['texts'].tolist();"
        "assert 'keras_bert' not in sys.modules;"
        "np.savez(sys.argv[1] + '/out.npz', **{k: v.numpy() for k, v in model(texts=tf.constant(texts)).items()})"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, str(tmp_path)], check=True, cwd=tmp_path)
    with np.load(tmp_path / "out.npz") as out:
        check_equal(out, tokenizer(texts, None, 20))


@pytest.mark.parametrize("allowed", [(), ("[MASK]", "[SEP]", "[unused1]")])
def test_code_points_of_fixed_shape(tokenizer, texts, allowed):
    texts = [*texts, "a" * 101, "a" * 100, "[[MASK][SEP]SEP]", "가각 hangul"]
    pairs = texts[::-1]
    first, second = code_points(texts, 300), code_points(pairs, 300)
    want = tokenizer(texts, pairs, 32, allowed)
    check_equal(tokenizer.code_points_to_features(first, second, 32, allowed), want)
    check_equal(tokenizer.code_points_to_features(first, None, 16, allowed), tokenizer(texts, None, 16, allowed))


def test_code_points_beyond_unicode_are_clamped(tokenizer):
    features = tokenizer.code_points_to_features(np.array([[-5, 0x7FFFFFFF, ord("a")]], "int32"), None, 8)
    assert np.asarray(features["padding_mask"]).sum() >= 2


@pytest.mark.parametrize("vocabulary", [pytest.param("small", marks=pytest.mark.slow), "bert-base-uncased"])
def test_tflite_needs_builtins_only_and_agrees(vocabulary, texts):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="needs the package ai-edge-litert")
    if vocabulary == "small":
        tokenizer = made.of_small()
    else:
        tokenizer = made.published(vocabulary)
    spec = tf.TensorSpec([1, 256], tf.int32, name="code_points")
    function = tf.function(lambda points: tokenizer.code_points_to_features(points, None, 48), input_signature=[spec])
    module = tf.Module()
    module.function = function
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()], module)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]  # anything else fails here
    content = converter.convert()
    assert len(content) < 2_000_000  # measured: 1,156,628 with 30,522 tokens
    model = interpreter.Interpreter(model_content=content)
    model.allocate_tensors()
    names = {op["op_name"] for op in model._get_ops_details()}
    assert not {name for name in names if "Flex" in name or "CUSTOM" in name or name == "DELEGATE"}
    (given,), outputs = model.get_input_details(), model.get_output_details()
    texts = texts[:200]
    want = tokenizer(texts, None, 48)
    for row, text in enumerate(texts):
        model.set_tensor(given["index"], code_points([text], 256))
        model.invoke()
        got = [model.get_tensor(output["index"])[0] for output in outputs]
        width = want["token_ids"].shape[1]
        assert any(np.array_equal(array[:width], want["token_ids"][row]) for array in got), ascii(text)


def test_text_preprocessor_round_trip(tokenizer, tmp_path, texts):
    first, second = (keras.Input((), dtype="string", name=name) for name in ("text", "text_pair"))
    features = TextPreprocessor(tokenizer, max_length=20, allowed_special=["[MASK]"])([first, second])
    outputs = keras.layers.Embedding(tokenizer.vocab_size, 5)(features["token_ids"])
    model = keras.Model([first, second], {"embedded": outputs, **features})
    batch = [tf.constant([text.encode() for text in part]) for part in (texts, texts[::-1])]
    want = model(batch)
    check_equal({name: want[name] for name in features}, tokenizer(texts, texts[::-1], 20, ["[MASK]"]))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    got = loaded.predict(batch, verbose=0, batch_size=len(texts))
    for name, array in want.items():
        assert np.array_equal(got[name], array), name


def test_text_preprocessor_of_one_text(tokenizer):
    features = TextPreprocessor(tokenizer)(tf.constant(["the 中国"]))
    assert features["token_ids"].shape == (1, 5)
