"""Uses TensorFlow where it is the backend. Dropout from counters: other masks on each replica, kept by checkpoints.

A mask is a function of (the layer's seed, how many it has drawn, the replica). Keras's own leaves out the replica.
"""

import contextlib
import contextvars

import keras
from keras import ops

STEPS = 1 << 16  # masks come from 16 random bits: half the cost of Keras's, which draws 32
_draw = contextvars.ContextVar("draw", default=None)


@keras.saving.register_keras_serializable("keras_bert")
class Dropout(keras.layers.Layer):
    """Sets a share of the numbers to zero in training and scales up the rest: (...) -> (...), of any float dtype.

    Its state, (seed, count), is that of `seed_generator`: among the layer's `variables`, not among its `weights`.

    Args:
        rate: the share, from 0 to below 1, rounded to 1 / 65536.

    Source: Srivastava et al. 2014.
    """

    def __init__(self, rate, **kwargs):
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise ValueError(f"`rate` must be at least 0 and below 1, got {rate}.")
        self.rate, self.supports_masking = rate, True
        self.seed_generator = keras.random.SeedGenerator() if rate else None

    def call(self, x, training=None):
        dropped = round(self.rate * STEPS)
        if not training or not dropped:
            return x
        if keras.backend.backend() == "tensorflow":
            key = (_draw.get() or _next_key)(self.seed_generator)
            keep = _tensorflow_bits(key, ops.shape(x)) >= dropped - STEPS // 2
        else:
            keep = keras.random.uniform(ops.shape(x), seed=self.seed_generator) >= dropped / STEPS
        return ops.where(keep, x * (STEPS / (STEPS - dropped)), ops.zeros((), x.dtype))

    def compute_output_spec(self, x, training=None):
        return keras.KerasTensor(x.shape, dtype=x.dtype)

    def get_config(self):
        return {**super().get_config(), "rate": self.rate}


@contextlib.contextmanager
def same_draws(keys):
    """Lets a second pass over the same layers draw the masks of the first: for recomputing them. TensorFlow only.

    Args:
        keys: an empty list, which the first pass fills; the second takes from it and counts nothing.
    """
    drawn = iter(list(keys)) if keys else None

    def draw(generator):
        if drawn is not None:
            return next(drawn)
        keys.append(_next_key(generator))
        return keys[-1]

    token = _draw.set(draw)
    try:
        yield
    finally:
        _draw.reset(token)


def _next_key(generator):
    """Counts a draw, and gives its key for this replica: (2,) int32."""
    import tensorflow as tf

    context = tf.distribute.get_replica_context()  # None outside of replicas, where models are built
    replica = 0 if context is None else tf.cast(context.replica_id_in_sync_group, tf.int64)
    seed, count = tf.unstack(tf.cast(generator.next(), tf.int64))
    # an odd factor far from any sum of seeds; the seeds are below 10^9, so that replica 0 keeps its seed as it is
    key = tf.stack([seed + replica * 0x9E3779B1, count])
    return tf.cast(tf.math.floormod(key, tf.int32.max), tf.int32)


def _tensorflow_bits(key, shape):
    """Random int16 numbers."""
    import tensorflow as tf

    count = tf.reduce_prod(shape)
    words = tf.random.stateless_uniform([(count + 1) // 2], key, None, None, tf.int32)  # a draw is most of the cost
    return tf.reshape(tf.reshape(tf.bitcast(words, tf.int16), [-1])[:count], shape)
