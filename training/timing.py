"""How long training takes, found out by training a little."""

import itertools
import statistics
import time

import keras


def step_seconds(model, data, steps):
    """Trains a compiled model for some steps, at least three.

    Returns:
        Seconds until the first one has ended, tracing included, and the median of the others.
    """
    started, stamps = time.monotonic(), []
    watch = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: stamps.append(time.monotonic()))
    model.fit(data, steps_per_epoch=steps, callbacks=[watch], shuffle=False, verbose=0)
    return stamps[0] - started, statistics.median(after - before for before, after in itertools.pairwise(stamps))
