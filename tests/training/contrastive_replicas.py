"""One step of contrastive training on one and on two devices: python -m tests.training.contrastive_replicas OUT."""

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import keras_bert
from keras_bert.training.contrastive import InBatchNegatives, siamese
from keras_bert.training.distribution import prepare
from tests.models import VOCAB, randomize, tiny_config

SIZES = (6, 5)  # the second batch has another number of rows on each device


def batches():
    rng = np.random.default_rng(0)
    for rows in SIZES:
        ids = rng.integers(5, len(VOCAB), (rows, 3, 7)).astype("int32")
        ids[0, 1] = ids[1, 1]  # an anchor's own text twice
        numbers = np.arange(rows * 2).reshape(rows, 2)
        numbers[0, 0] = numbers[1, 0]
        x = {"token_ids": ids, "segment_ids": np.zeros_like(ids), "padding_mask": np.ones_like(ids)}
        yield x, numbers.astype("int32")


def step(strategy):
    """The loss of each batch, and the weights after a step on each."""
    spec = {name: tf.TensorSpec((None, 3, 7), tf.int32) for name in ("token_ids", "segment_ids", "padding_mask")}
    data = tf.data.Dataset.from_generator(batches, output_signature=(spec, tf.TensorSpec((None, 2), tf.int32)))
    with strategy.scope():
        config = tiny_config(num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        bundle = keras_bert.create(config, keras_bert.Tokenizer(VOCAB), "sentence_embedder")
        randomize(bundle.model)
        model = prepare(siamese(bundle.model, 3))
        model.compile(keras.optimizers.SGD(0.1), InBatchNegatives(5.0, (4,)))
    loss = model.fit(data, shuffle=False, verbose=0).history["loss"][0]
    return float(loss), [np.asarray(weight).tolist() for weight in bundle.model.get_weights()]


def main(out):
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    found = {"one": step(tf.distribute.OneDeviceStrategy("CPU:0"))}
    found["two"] = step(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
