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
from keras_bert.training.packed_batches import packed_pipeline
from tests.models import randomize, tiny_config

COUNT, T, S, B = 30, 24, 4, 5
OPTIONS = {"row_length": T, "row_sequences": S, "batch_size": B, "seed": 2}


def texts(pad_id=0):
    rng = np.random.default_rng(0)
    lengths = rng.integers(3, 12, COUNT)
    total = lengths.sum()
    splits = np.concatenate([[0], np.cumsum(lengths)]).astype("int64")
    ids = rng.integers(5, 23, total).astype("int32")
    return Rows(ids, rng.integers(0, 2, total).astype("int32"), splits, pad_id), rng.integers(0, 3, COUNT)


def test_every_text_once_in_each_epoch_with_its_label():
    rows, labels = texts()
    found = packed_pipeline(rows, labels, **OPTIONS)
    orders = []
    batches = list(found.batches(epochs=2).as_numpy_iterator())
    for x, y, weights in batches:
        for row, ids in enumerate(x["sequence_ids"]):
            for slot in range(S):
                place = np.flatnonzero(ids == slot + 1)
                assert weights[row, slot] == (len(place) > 0)
                if len(place):
                    assert x["sequence_starts"][row, slot] == place[0]
                    both = (x["token_ids"][row, place].tobytes(), x["segment_ids"][row, place].tobytes())
                    orders.append((*both, int(y[row, slot])))
    expected = [
        (rows.token_ids[a:b].tobytes(), rows.segment_ids[a:b].tobytes(), int(label))
        for a, b, label in zip(rows.splits, rows.splits[1:], labels, strict=False)
    ]
    assert sorted(orders) == sorted(expected * 2)
    assert sum(len(x["token_ids"]) for x, *_ in batches) < 0.5 * len(orders)
    resumed = list(found.batches(epochs=2, start=found.place(1)).as_numpy_iterator())
    np.testing.assert_array_equal(resumed[0][0]["token_ids"], batches[1][0]["token_ids"])


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
    (batch,) = packed_pipeline(rows, labels, **{**OPTIONS, "batch_size": COUNT}).batches()
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
    history = twin.fit(packed_pipeline(rows, labels, **OPTIONS).batches(epochs=20), shuffle=False, verbose=0).history
    assert history["accuracy"][0] > 0.4  # of the whole run; by chance 1/3


def test_refused():
    rows, labels = texts()
    with pytest.raises(ValueError, match=r"^`row_length` must be at least 11, which the longest text has, got 8\.$"):
        packed_pipeline(rows, labels, **{**OPTIONS, "row_length": 8})
    choices = Rows(rows.token_ids, rows.segment_ids, rows.splits, 0, choices=2)
    with pytest.raises(ValueError, match=r"^Only rows of one text can be packed, got 2 choices\.$"):
        packed_pipeline(choices, labels, **OPTIONS)
