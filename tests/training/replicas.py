"""What several devices and processes compute: a program for the tests of distribution.

TensorFlow takes its devices once a process, so it runs in processes of its own:
`python -m tests.training.replicas CHECK OUT` writes OUT, JSON.
"""

import functools
import itertools
import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import keras_bert
from keras_bert.dropout import Dropout
from keras_bert.training.checkpoints import Checkpoints
from keras_bert.training.distribution import prepare
from keras_bert.training.losses import pretraining_objectives
from keras_bert.training.optimization import adamw, lamb
from keras_bert.training.strategies import strategy
from tests.models import VOCAB, randomize, tiny_config

SIZES = (8, 7, 5)
T, P = 9, 6
POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
WAYS = {"clip": {}, "accumulate 2": {"accumulate": 2}, "XLA": {"jit_compile": True, "accumulate": 2}}
OPTIMIZERS = {"AdamW": lambda: adamw(1e-3), "LAMB": lambda: lamb(1e-3)}


def sgd():
    """Its momentum after one step is the gradient."""
    return keras.optimizers.SGD(0.01, momentum=0.9, global_clipnorm=1.0)


def pretraining_batch(rows, seed):
    """Features, labels and weights: one masked token in the first half of the rows, five in the others."""
    config, rng = tiny_config(), np.random.default_rng(seed)
    x = {
        "token_ids": rng.integers(1, config.vocab_size, (rows, T)).astype("int32"),
        "segment_ids": rng.integers(0, 2, (rows, T)).astype("int32"),
        "padding_mask": (np.arange(T) < rng.integers(3, T + 1, rows)[:, None]).astype("int32"),
        "masked_positions": rng.integers(0, T, (rows, P)).astype("int32"),
    }
    y = {
        "mlm_logits": rng.integers(0, config.vocab_size, (rows, P)).astype("int32"),
        "nsp_logits": rng.integers(0, 2, rows).astype("int32"),
    }
    counts = np.where(np.arange(rows) < rows // 2, 1, 5)[:, None]
    weights = {"mlm_logits": (np.arange(P) < counts).astype("float32"), "nsp_logits": np.ones(rows, "float32")}
    return x, y, weights


def data(sizes, seed=0):
    """Batches of these sizes, all of one type: (None, T)."""
    parts = [pretraining_batch(rows, seed + i) for i, rows in enumerate(sizes)]
    spec = keras.tree.map_structure(lambda a: tf.TensorSpec((None, *a.shape[1:]), a.dtype), parts[0])
    return counted(parts, spec)


def counted(parts, spec):
    batches = tf.data.Dataset.from_generator(lambda: iter(parts), output_signature=spec)
    return batches.apply(tf.data.experimental.assert_cardinality(len(parts)))


def texts(sizes, seed=0):
    """Strings, tokenized before the strategy sees them; no weights."""
    tokenizer = keras_bert.Tokenizer(VOCAB)
    words = ["good film", "bad", "hello world , the", "a bad b c"]
    parts = [(np.roll(words * 2, seed + i)[:rows], np.arange(rows) % 2) for i, rows in enumerate(sizes)]
    spec = (tf.TensorSpec((None,), tf.string), tf.TensorSpec((None,), tf.int64))

    def features(text, label):
        return tokenizer.strings_to_features(text, max_length=T), label

    return counted(parts, spec).map(features)


def pretraining(dropout=0.0):
    config = tiny_config(num_hidden_layers=1, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    return randomize(keras_bert.create(config, head="pretraining_model").model), pretraining_objectives()


def own_model():
    """A user's model round our encoder: a loss by its name, no weights, a regularizer."""
    config = tiny_config(num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    encoder = keras_bert.build_encoder(config)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in encoder.input}
    x = keras.layers.Dense(5, "relu", kernel_regularizer=keras.regularizers.L2(0.01))(encoder(inputs)["pooled_output"])
    model = randomize(keras.Model(inputs, keras.layers.Dense(2, "softmax")(x)))
    return model, {"loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"]}


def compiled(devices, make=pretraining, optimizer=sgd, policy="float32", jit_compile=False, **options):
    """A prepared model inside the strategy; every one starts alike."""
    keras.config.set_dtype_policy(POLICIES[policy])
    try:
        with devices.scope():
            keras.utils.set_random_seed(1)
            model, objectives = make()
            model = prepare(model, **options)
            model.compile(optimizer(), jit_compile=jit_compile, **objectives)
    finally:
        keras.config.set_dtype_policy("float32")
    return model


def fit(model, batches, **options):
    """Trains, and gives the last value of each log."""
    history = model.fit(batches, verbose=0, shuffle=False, **options).history
    return {name: float(values[-1]) for name, values in history.items()}


class Start:
    """A state to go back to: weights, dropout, optimizer."""

    def __init__(self, model):
        with model.distribute_strategy.scope():
            model.optimizer.build(model.trainable_weights)
        self.variables = [*model.variables, *model.optimizer.variables]
        self.values = [variable.numpy() for variable in self.variables]

    def restore(self):
        for variable, value in zip(self.variables, self.values, strict=True):
            variable.assign(value)


def gradient(model):
    """What the first step applied."""
    momenta = [variable for variable in model.optimizer.variables if variable.path.endswith("momentum")]
    return np.concatenate([variable.numpy().ravel() for variable in momenta]).tolist()


def weights(model):
    return np.concatenate([weight.numpy().ravel() for weight in model.weights]).tolist()


def answers(model, batches=data, validated=True, **options):
    """Of one step on each size of batch the gradient and the logs, with validation's; then the weights after 20."""
    start, found = Start(model), {"gradients": [], "logs": []}
    for rows in SIZES:
        start.restore()
        held_out = {"validation_data": batches(SIZES, seed=9)} if validated else {}
        found["logs"].append(fit(model, batches([rows]), **held_out, **options))
        found["gradients"].append(gradient(model))
    start.restore()
    found["logs"].append(fit(model, batches((SIZES * 7)[:20]), **options))
    return {**found, "weights": weights(model), "traces": model.traces}


def twice(model):
    """Logs and weights of the same run, made two times."""
    start, runs = Start(model), []
    for _ in range(2):
        start.restore()
        runs.append([fit(model, data(SIZES * 2)), weights(model)])
    return runs


def masks(devices):
    """What two calls drop on each replica, twice from the same state, and the counts of draws."""
    with devices.scope():
        layer = Dropout(0.5)
    call = functools.partial(layer, tf.ones((40,)), training=True)
    run = tf.function(functools.partial(devices.run, call), autograph=False)
    state = layer.seed_generator.state
    first, drawn = state.numpy(), []
    for _ in range(2):
        state.assign(first)
        drawn.append([[part.numpy().tolist() for part in devices.experimental_local_results(run())] for _ in range(2)])
    counts = [int(part.numpy()[1]) for part in devices.experimental_local_results(state.value)]
    return {"drawn": drawn, "counts": counts}


def dense_model():
    """For the table: small enough to be traced in a second; matrices, vectors, dropout and float32 logits."""
    x = keras.Input((6,))
    y = Dropout(0.1)(keras.layers.Dense(7, "relu")(x))
    loss = keras.losses.SparseCategoricalCrossentropy(True, reduction="mean_with_sample_weight")
    return randomize(keras.Model(x, keras.layers.Dense(2, dtype="float32")(y))), {"loss": loss}


def dense_batches(count):
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(8, 6)).astype("float32"), draw.integers(0, 2, 8)
    return tf.data.Dataset.from_tensors((x, y, np.arange(8, dtype="float32"))).repeat(count)


def cell(devices, optimizer, policy, way):
    """One cell of the table: what two steps came to, or why it is refused."""
    try:
        model = compiled(devices, dense_model, OPTIMIZERS[optimizer], policy, **WAYS[way])
    except ValueError as error:
        return {"refused": str(error)}
    before = weights(model)
    logs = fit(model, dense_batches(2))
    moved = float(np.abs(np.subtract(before, weights(model))).max())
    scale = getattr(model.optimizer, "dynamic_scale", None)
    return {"loss": logs["loss"], "moved": moved, "loss_scale": 0 if scale is None else float(scale.numpy())}


def cells(name):
    """All cells of a strategy."""
    devices = strategy(name)
    return {"/".join((name, *way)): cell(devices, *way) for way in itertools.product(OPTIMIZERS, POLICIES, WAYS)}


def metric_from_outside(devices):
    """How it is refused."""
    model, metric = compiled(devices, dense_model), keras.metrics.SparseCategoricalAccuracy()
    with devices.scope():
        model.compile(sgd(), model.loss, metrics=[metric])
    try:
        fit(model, dense_batches(1))
    except ValueError as error:
        return str(error)


# checks: what a process of its own does


def two_devices():
    set_devices(2)
    devices = strategy("mirrored")
    return {
        "ours": answers(compiled(devices)),
        "own": answers(compiled(devices, own_model), texts, validated=False),
        "masks": masks(devices),
        "cells": {
            "AdamW float16": cell(devices, "AdamW", "float16", "accumulate 2"),
            "LAMB bfloat16": cell(devices, "LAMB", "bfloat16", "clip"),
            "AdamW XLA": cell(devices, "AdamW", "float32", "XLA"),
        },
        "metric": metric_from_outside(devices),
    }


def four_devices():
    set_devices(4)
    return answers(compiled(strategy("mirrored")), validated=False)


def accumulation():
    set_devices(2)  # in a process of its own: TensorFlow's collectives keep the number of devices of the first ones
    two = strategy("mirrored")
    return {
        "accumulated": answers(compiled(two, accumulate=3), validated=False),
        "rematerialized": answers(compiled(two, rematerialize=True), validated=False),
        "dropout": twice(compiled(two, lambda: pretraining(0.3))),
        "dropout rematerialized": twice(compiled(two, lambda: pretraining(0.3), rematerialize=True)),
    }


def table():
    set_devices(2)
    return cells("none") | cells("mirrored")


def worker_table():
    return cells("multi_worker")


def worker():
    """One of several workers: TF_CONFIG says which; it writes to a folder of its own, checkpoints to one for all."""
    devices = strategy("multi_worker")
    folder = Path(sys.argv[2]).parent
    model = compiled(devices)
    checkpoints = Checkpoints(folder / "checkpoints", every=4)
    checkpoints.resume(model)
    written = keras.callbacks.ModelCheckpoint(folder / f"{Path(sys.argv[2]).stem}.keras")
    stopping = keras.callbacks.EarlyStopping("loss", patience=3)
    return answers(model, callbacks=[checkpoints, written, stopping])


def long_worker():
    """One of several workers in a run of 30 steps that stops for a while at step 12, to be killed there."""
    devices = strategy("multi_worker")
    folder = Path(sys.argv[2]).parent
    model = compiled(devices, lambda: pretraining(0.2))
    checkpoints = Checkpoints(folder / "checkpoints", every=5)
    first, waiting = checkpoints.resume(model), folder / "waiting"

    def wait(step, logs):
        if first == 0 and step == 12 and not (folder / "go").exists():
            waiting.touch()
            time.sleep(2)

    watch = keras.callbacks.LambdaCallback(on_train_batch_begin=wait)
    fit(model, data((SIZES * 10)[first:], seed=first), callbacks=[checkpoints, watch])
    return {"from": first, "weights": weights(model)}


def set_devices(count):
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)


if __name__ == "__main__":
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # half of the time of tiny steps
    Path(sys.argv[2]).write_text(json.dumps(globals()[sys.argv[1]]()))
