"""Dropout from counters. Masks of replicas are tested in training/test_distribution.py, which has several devices."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.dropout import Dropout, same_draws
from tests.models import tiny_bundle

X = np.random.default_rng(0).normal(1.0, 0.3, (200, 31, 7)).astype("float32")  # an odd number of elements in a row


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_share_is_zero_and_the_rest_is_scaled(dtype, jit):
    layer = Dropout(0.3, dtype=dtype)
    y = tf.function(lambda x: layer(x, training=True), jit_compile=jit)(tf.constant(X, dtype))
    assert y.dtype == dtype
    y = tf.cast(y, "float32").numpy()
    kept = y != 0
    assert abs(kept.mean() - 0.7) < 0.01  # 43,400 draws: 4.5 standard deviations
    np.testing.assert_allclose(y[kept], X[kept] / 0.7, rtol=1e-5 if dtype == "float32" else 2e-2)
    rows = kept.reshape(200, -1)
    assert len(np.unique(rows, axis=0)) == 200
    assert abs(np.corrcoef(rows[:, ::2].ravel()[:21000], rows[:, 1::2].ravel()[:21000])[0, 1]) < 0.03


def test_each_call_and_each_layer_has_its_own_mask_and_a_run_repeats():
    def run():
        keras.utils.set_random_seed(3)
        layers = [Dropout(0.5), Dropout(0.5)]
        return [np.asarray(layer(X, training=True)) == 0 for _ in range(2) for layer in layers]

    first, second = run(), run()
    np.testing.assert_array_equal(first, second)
    for i in range(4):
        for k in range(i):
            assert abs((first[i] == first[k]).mean() - 0.5) < 0.02


def test_without_training_nothing_is_dropped_or_counted():
    layer = Dropout(0.5)
    np.testing.assert_array_equal(layer(X), X)
    np.testing.assert_array_equal(Dropout(0.0)(X, training=True), X)
    assert layer.seed_generator.state.numpy()[1] == 0


def test_the_state_decides_the_mask_and_is_no_weight():
    layer = Dropout(0.5)
    assert not layer.weights
    assert len(layer.variables) == 1
    state = layer.variables[0].numpy()
    first = np.asarray(layer(X, training=True))
    assert (np.asarray(layer(X, training=True)) != first).any()
    layer.variables[0].assign(state)
    np.testing.assert_array_equal(layer(X, training=True), first)


def test_every_dropout_of_every_head_is_ours():
    for head in keras_bert.HEADS:
        for layer in tiny_bundle(head).model._flatten_layers():
            assert not isinstance(layer, keras.layers.Dropout), head


def test_a_second_pass_draws_the_masks_of_the_first():
    layers, keys, passes = [Dropout(0.5), Dropout(0.5)], [], []
    for _ in range(2):
        with same_draws(keys):
            passes.append([np.asarray(layer(X, training=True)) for layer in layers * 2])
    np.testing.assert_array_equal(*passes)
    assert (passes[0][0] != passes[0][2]).any()
    assert [layer.seed_generator.state.numpy()[1] for layer in layers] == [2, 2]


@pytest.mark.parametrize("rate", [-0.1, 1, 1.5])
def test_a_rate_that_is_none(rate):
    with pytest.raises(ValueError, match=rf"^`rate` must be at least 0 and below 1, got {rate}\.$"):
        Dropout(rate)


UNDER_JAX = """
import keras, numpy as np
from keras_bert.dropout import Dropout
assert keras.backend.backend() == "jax"
model = keras.Sequential([keras.Input((40,)), Dropout(0.25), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((8, 40), "float32"), np.ones((8, 1), "float32"), verbose=0)
assert model.layers[0].seed_generator.state[1] == 1
y = np.asarray(model.layers[0](np.ones((300, 40), "float32"), training=True))
assert abs((y == 0).mean() - 0.25) < 0.02
np.testing.assert_allclose(y[y != 0], 1 / 0.75, rtol=1e-6)
"""


@pytest.mark.slow
def test_under_jax():
    if find_spec("jax") is None:
        pytest.skip("needs jax, which is not installed")
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    root = Path(__file__).resolve().parents[1]
    subprocess.run([sys.executable, "-c", UNDER_JAX], env=environment, cwd=root, check=True)
