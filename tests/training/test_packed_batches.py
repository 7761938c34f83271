"""Short texts packed for a classifier: each once an epoch, and the same loss and gradients as apart."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.encoder import build_encoder
from keras_bert.heads import sequence_classifier
from keras_bert.packed import packed_model
from keras_bert.training.batches import Rows
from keras_bert.training.losses import masked_cross_entropy
from keras_bert.training.packed_batches import packed_batches, packed_padding
from tests.models import randomize, tiny_config

COUNT, T = 30, 24
OPTIONS = {"row_length": T, "batch_size": 7, "seed": 2, "epochs": 2}


def texts(count=COUNT):
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 12, count)
    total = lengths.sum()
    splits = np.concatenate([[0], np.cumsum(lengths)]).astype("int64")
    ids = rng.integers(5, 23, total).astype("int32")
    return Rows(ids, rng.integers(0, 2, total).astype("int32"), splits, 0), rng.integers(0, 3, count)


@pytest.mark.parametrize("count", [COUNT, 1500])  # of one window, and of two
def test_every_text_once_in_each_epoch_with_its_label(count):
    rows, labels = texts(count)
    weights = np.arange(1, count + 1, dtype="float32")
    batches = list(packed_batches(rows, labels, weights=weights, **OPTIONS).as_numpy_iterator())
    steps = -(-count // OPTIONS["batch_size"])
    assert len(batches) == 2 * steps
    spans = list(zip(rows.splits, rows.splits[1:], strict=False))
    expected = [
        (rows.token_ids[a:b].tobytes(), rows.segment_ids[a:b].tobytes(), int(label), float(weight))
        for (a, b), label, weight in zip(spans, labels, weights, strict=True)
    ]
    orders = []
    for epoch in range(2):
        found = []
        for x, y, counted in batches[epoch * steps : (epoch + 1) * steps]:
            assert x["token_ids"].shape[1] == T
            for row, ids in enumerate(x["sequence_ids"]):
                for slot in range(y.shape[1]):
                    place = np.flatnonzero(ids == slot + 1)
                    assert (counted[row, slot] > 0) == (len(place) > 0)
                    if len(place):
                        assert x["sequence_starts"][row, slot] == place[0]
                        both = (x["token_ids"][row, place].tobytes(), x["segment_ids"][row, place].tobytes())
                        found.append((*both, int(y[row, slot]), float(counted[row, slot])))
        assert sorted(found) == sorted(expected)
        orders.append(found)
    assert orders[0] != orders[1]
    heights = [len(x["token_ids"]) for x, *_ in batches[:steps]]
    assert max(heights) - min(heights) <= 1
    padding = 1 - rows.tokens.sum() / (T * sum(heights))
    assert packed_padding(rows, T, OPTIONS["batch_size"], OPTIONS["seed"]) == pytest.approx(padding)
    assert padding < 0.25


def test_loss_and_gradients_equal_those_of_single_texts():
    config = tiny_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = randomize(sequence_classifier(build_encoder(config), 3))
    rows, labels = texts()
    loss = masked_cross_entropy()
    width = int(rows.tokens.max())
    real = np.arange(width) < rows.tokens[:, None]
    apart = {"padding_mask": real.astype("int32")}
    for name in ("token_ids", "segment_ids"):
        apart[name] = np.zeros((COUNT, width), "int32")
        apart[name][real] = getattr(rows, name)

    def run(model, x, y, weights):
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True), weights)
        return value, tape.gradient(value, [weight.value for weight in variables])

    variables = model.trainable_weights
    (batch,) = packed_batches(rows, labels, **{**OPTIONS, "batch_size": COUNT, "epochs": 1})
    packed, alone = run(packed_model(model), *batch), run(model, apart, labels, None)
    np.testing.assert_allclose(packed[0], alone[0], rtol=0, atol=1e-5)  # measured 1e-7
    for one, other in zip(packed[1], alone[1], strict=True):
        np.testing.assert_allclose(
            tf.convert_to_tensor(one), tf.convert_to_tensor(other), rtol=0, atol=1e-5
        )  # measured 1e-6


@pytest.mark.slow
def test_fit():
    rows, labels = texts()
    model = sequence_classifier(build_encoder(tiny_config()), 3)
    twin = packed_model(model)
    twin.compile(keras.optimizers.Adam(1e-2), masked_cross_entropy(), weighted_metrics=["accuracy"], jit_compile=False)
    history = twin.fit(packed_batches(rows, labels, **{**OPTIONS, "epochs": 20}), shuffle=False, verbose=0).history
    assert history["accuracy"][0] > 0.4  # of the whole run; by chance 1/3


def test_refused():
    rows, labels = texts()
    with pytest.raises(ValueError, match=r"^`row_length` must be at least 11, which the longest text has, got 8\.$"):
        packed_batches(rows, labels, **{**OPTIONS, "row_length": 8})
    choices = Rows(rows.token_ids, rows.segment_ids, rows.splits, 0, choices=2)
    with pytest.raises(ValueError, match=r"^Only rows of one text can be packed, got 2 choices\.$"):
        packed_batches(choices, labels, **OPTIONS)
