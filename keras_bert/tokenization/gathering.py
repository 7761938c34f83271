"""Gathering and closing up with fixed shapes, for keras.ops programs. Uses TensorFlow where that is the backend."""

import keras
from keras import ops

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    take = tf.gather  # Keras's own would mend negative places: three more operations each time
else:

    def take(x, places):
        """Rows of `x` at `places`, which are never negative."""
        return keras.ops.take(x, places, axis=0)


def closed_up(kept, values, width):
    """What each row keeps of `values` (B, M), where `kept` (B, M) bool, side by side from the left: (B, width)."""
    rows = ops.shape(values)[0]
    return ops.reshape(scattered(targets(kept, width), values, rows * width), (rows, width))


def targets(kept, width):
    """Where each kept element of (B, M) goes in B closed-up rows of `width`; all others to the end: int32 (B, M)."""
    rows = ops.shape(kept)[0]
    order = ops.cumsum(ops.cast(kept, "int32"), axis=1) - 1
    target = ops.expand_dims(ops.arange(rows) * width, 1) + order
    return ops.where(kept & (order < width), target, rows * width)


def scattered(target, values, size):
    """Puts `values` at their targets, each of which comes once; `size` is thrown away, and may come often."""
    return ops.scatter(ops.reshape(target, (-1, 1)), ops.reshape(values, (-1,)), (size + 1,))[:size]
