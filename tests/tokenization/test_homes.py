"""The same strings in every home: Python, tf.data, SavedModel, TFLite, ONNX, JAX."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.tokenization import Tokenizer
from tests.tokenization import made, small
from tests.tokenization.test_graphs import code_points

LENGTH, CHARS = 48, 256


def sample(count):
    """Strings of at most CHARS code points, with the cases that make trouble first."""
    texts = [
        "",
        " ",
        "\ufffd\ufffe",
        "a" * 120,
        "unaffable 中国 cafe\u0301",
        "가각 \u302e\u0323a",
        "[SEP] [MASK]the",
        "ΑΣ Σ",
    ]
    return (texts + small.hard_strings(count, seed=21))[:count]


def tokenizers():
    yield "huggingface", made.of_small(), ()
    yield "google", Tokenizer(small.VOCAB, rules="google"), ("[MASK]", "[SEP]")


@pytest.fixture(scope="module", params=["huggingface", pytest.param("google", marks=pytest.mark.slow)])
def home(request):
    """A tokenizer, what it allows, and what Python makes of the strings: ids (n, LENGTH)."""
    _, tokenizer, allowed = next(row for row in tokenizers() if row[0] == request.param)
    return tokenizer, allowed, padded(tokenizer(sample(1000), None, LENGTH, allowed)["token_ids"])


def padded(ids):
    return np.pad(np.asarray(ids), [(0, 0), (0, LENGTH - np.shape(ids)[1])])


def fixed(tokenizer, allowed):
    spec = tf.TensorSpec([None, CHARS], tf.int32, name="code_points")
    return tf.function(
        lambda points: tokenizer.code_points_to_features(points, None, LENGTH, allowed)["token_ids"], [spec]
    )


def test_tf_data(home):
    tokenizer, allowed, want = home
    dataset = tf.data.Dataset.from_tensor_slices(sample(1000)).batch(100)
    batches = dataset.map(lambda texts: tokenizer.strings_to_features(texts, None, LENGTH, allowed)["token_ids"])
    assert np.array_equal(np.concatenate([padded(batch) for batch in batches]), want)


def test_saved_model(home, tmp_path):
    tokenizer, allowed, want = home
    module = tf.Module()
    spec = tf.TensorSpec([None], tf.string)
    module.ids = tf.function(lambda x: tokenizer.strings_to_features(x, None, LENGTH, allowed)["token_ids"], [spec])
    tf.saved_model.save(module, tmp_path)
    assert np.array_equal(padded(tf.saved_model.load(tmp_path).ids(tf.constant(sample(1000)))), want)


def test_tflite(home):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="needs the package ai-edge-litert")
    tokenizer, allowed, want = home
    function = fixed(tokenizer, allowed).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], tf.Module())
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    model = interpreter.Interpreter(model_content=converter.convert())
    (given,), (output,) = model.get_input_details(), model.get_output_details()
    model.resize_tensor_input(given["index"], [50, CHARS])
    model.allocate_tensors()
    got = []
    for batch in np.split(code_points(sample(1000), CHARS), 20):
        model.set_tensor(given["index"], batch)
        model.invoke()
        got.append(model.get_tensor(output["index"]).copy())
    assert np.array_equal(np.concatenate(got), want)


def test_onnx(home):
    tf2onnx = pytest.importorskip("tf2onnx", reason="needs the package tf2onnx")
    runtime = pytest.importorskip("onnxruntime", reason="needs the package onnxruntime")
    tokenizer, allowed, want = home
    spec = tf.TensorSpec([None, CHARS], tf.int32, name="code_points")
    model, _ = tf2onnx.convert.from_function(fixed(tokenizer, allowed), [spec], opset=17)
    assert {node.domain for node in model.graph.node} <= {"", "ai.onnx"}  # standard operations
    assert [value.name for value in model.graph.input] == ["code_points"]  # constants are inside
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    batches = np.split(code_points(sample(1000), CHARS), 20)
    got = [session.run(None, {"code_points": batch})[0] for batch in batches]
    assert np.array_equal(np.concatenate(got), want)


JAX_PROGRAM = """
import sys, numpy as np, jax
from keras_bert.tokenization import Tokenizer
from tests.tokenization.test_homes import CHARS, LENGTH, code_points, sample, tokenizers
for name, tokenizer, allowed in tokenizers():
    run = jax.jit(lambda points: tokenizer.code_points_to_features(points, None, LENGTH, allowed)["token_ids"])
    batches = np.split(code_points(sample(1000), CHARS), 20)
    np.save(f"{sys.argv[1]}/{name}.npy", np.concatenate([np.asarray(run(batch)) for batch in batches]))
"""


@pytest.mark.slow
def test_jax(tmp_path):
    if subprocess.run([sys.executable, "-c", "import jax"], capture_output=True).returncode:
        pytest.skip("needs the package jax, which is not installed")
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "ignore", "-c", JAX_PROGRAM, str(tmp_path)]
    subprocess.run(command, check=True, env=environment)
    for name, tokenizer, allowed in tokenizers():
        want = padded(tokenizer(sample(1000), None, LENGTH, allowed)["token_ids"])
        assert np.array_equal(np.load(tmp_path / f"{name}.npy"), want), name
