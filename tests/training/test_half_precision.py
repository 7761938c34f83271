"""Half precision: what overflows there, and rows without a token."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.layers import SelfAttention
from keras_bert.training.losses import pretraining_objectives
from keras_bert.training.precision import PRECISIONS, precision
from tests.models import randomize, tiny_config
from tests.training.replicas import pretraining_batch


def assert_finite(tensors):
    for tensor in tensors:
        assert np.isfinite(np.asarray(tf.cast(tf.convert_to_tensor(tensor), "float32"))).all()


@pytest.mark.parametrize("name", PRECISIONS)
def test_scores_at_the_end_of_the_range_and_a_row_of_padding(name):  # P49
    config = tiny_config()  # 4 numbers a head
    layer = randomize_and_build(SelfAttention(config, dtype=PRECISIONS[name]))
    for dense in (layer.query, layer.key):
        dense.bias.assign(np.full(12, 173.0))  # 4 * 173 / sqrt(4) * 173 = 6e4, and 65,504 is float16's largest
    x = tf.Variable(np.random.default_rng(0).normal(0.0, 1e-3, (2, 5, 12)).astype("float32"))
    mask = np.array([[0] * 5, [1] * 5], "int32")
    with tf.GradientTape() as tape:
        y = layer(x, mask)
        loss = tf.reduce_mean(tf.square(tf.cast(y, "float32")))
    assert_finite([y, *tape.gradient(loss, [x, *layer.trainable_weights])])


def randomize_and_build(layer):
    layer.build((None, None, 12))
    for weight in layer.weights:
        weight.assign(np.random.default_rng(1).normal(0.0, 0.3, weight.shape) * (weight.name != "kernel" or 0.01))
    return layer


@pytest.mark.parametrize("name", PRECISIONS)
def test_a_row_of_padding_counts_nothing(name):  # P49
    with precision(name):
        config = tiny_config(num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        model = randomize(keras_bert.create(config, head="pretraining_model").model)
    model.compile("sgd", **pretraining_objectives())
    x, y, weights = pretraining_batch(3, seed=0)
    x["padding_mask"][0], x["padding_mask"][1] = 0, 1
    for value in weights.values():
        value[0] = 0

    def gradients(labels):
        with tf.GradientTape() as tape:
            loss = model.compute_loss(x, labels, model(x, training=True), weights)
        return [loss, *tape.gradient(loss, model.trainable_weights, unconnected_gradients="zero")]

    found = gradients(y)
    assert_finite(found)
    assert float(found[0]) > 1
    other = {key: np.concatenate([1 - value[:1] % 2, value[1:]]) for key, value in y.items()}
    for one, two in zip(found, gradients(other), strict=True):
        np.testing.assert_array_equal(tf.convert_to_tensor(one), tf.convert_to_tensor(two))
    with tf.GradientTape() as tape:  # the row alone: no weight at all
        nothing = {key: value * 0 for key, value in weights.items()}
        loss = model.compute_loss(x, y, model(x, training=True), nothing)
    assert float(loss) == 0
    assert_finite(tape.gradient(loss, model.trainable_weights, unconnected_gradients="zero"))


def test_an_unknown_precision():
    message = r"^`precision` must be one of float32, bfloat16, float16, got 'half'\.$"
    with pytest.raises(ValueError, match=message), precision("half"):
        pass
    assert keras.config.dtype_policy().name == "float32"
