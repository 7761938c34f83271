"""Uses TensorFlow. Training sentence vectors: a model of several texts at once, and its losses."""

import keras
import tensorflow as tf
from keras import ops

from keras_bert.head_layers import FlattenChoices
from keras_bert.layers import register

SCALE = 20.0  # of cosines, before the softmax
MASKED = -1e9


def siamese(embedder, count):
    """Gives a model of `count` texts an example, inputs (B, N, T) to vectors (B, N, D), with the embedder's layers."""
    inputs = {name: keras.Input((count, None), dtype="int32", name=name) for name in embedder.input}
    flat = {name: FlattenChoices(name=f"flat_{name}")(value) for name, value in inputs.items()}
    vectors = embedder(flat)  # (BN, D)
    return keras.Model(inputs, ops.reshape(vectors, (-1, count, vectors.shape[-1])), name="siamese")


@register
class InBatchNegatives(keras.losses.Loss):
    """The loss by which each anchor has to find its own text among those of all anchors, on all replicas.

    Called with y_true (B, N - 1) int, one number for each different text, and y_pred (B, N, D), the anchor, its own
    text, and texts that are like it but wrong. A text that equals the anchor's own is no wrong one.

    Args:
        scale: what cosines are multiplied by.
        dimensions: numbers of leading dimensions that shall do as vectors by themselves (Matryoshka): the loss is the
            mean of theirs and of the whole vector's.

    Sources: Henderson et al. 2017; Kusupati et al. 2022.
    """

    def __init__(self, scale=SCALE, dimensions=(), name="in_batch_negatives", **kwargs):
        super().__init__(name=name, **kwargs)
        self.scale, self.dimensions = scale, tuple(dimensions)

    def call(self, y_true, y_pred):
        anchors, others = y_pred[:, 0], y_pred[:, 1:]
        numbers = every = ops.cast(y_true, "int32")
        rows, size, before = tf.shape(numbers)[0], tf.shape(numbers)[1], 0
        context = tf.distribute.get_replica_context()
        if context is not None and context.num_replicas_in_sync > 1:
            counts = context.all_gather(tf.reshape(rows, [1]), axis=0)
            before = tf.reduce_sum(counts[: context.replica_id_in_sync_group])
            others, every = context.all_gather(others, axis=0), context.all_gather(numbers, axis=0)
        candidates = tf.reshape(others, [-1, y_pred.shape[-1]])  # (M, D)
        own = (before + tf.range(rows)) * size  # (B,), the place of each anchor's own text
        equal = tf.equal(tf.reshape(every, [1, -1]), numbers[:, :1])
        barred = equal & (tf.expand_dims(tf.range(tf.shape(candidates)[0]), 0) != tf.expand_dims(own, 1))
        losses = []
        for width in (*self.dimensions, y_pred.shape[-1]):
            logits = self.scale * ops.matmul(unit(anchors[:, :width]), ops.transpose(unit(candidates[:, :width])))
            losses.append(tf.nn.sparse_softmax_cross_entropy_with_logits(own, ops.where(barred, MASKED, logits)))
        return sum(losses) / len(losses)

    def get_config(self):
        return {**super().get_config(), "scale": self.scale, "dimensions": list(self.dimensions)}


@register
class CosineError(keras.losses.Loss):
    """The squared error of the cosine of two texts: y_true (B,) from -1 to 1, y_pred (B, 2, D).

    Args:
        dimensions: as for `InBatchNegatives`.
    """

    def __init__(self, dimensions=(), name="cosine_error", **kwargs):
        super().__init__(name=name, **kwargs)
        self.dimensions = tuple(dimensions)

    def call(self, y_true, y_pred):
        widths = (*self.dimensions, y_pred.shape[-1])
        parts = [ops.square(cosine(y_pred[..., :width]) - ops.cast(y_true, "float32")) for width in widths]
        return sum(parts) / len(parts)

    def get_config(self):
        return {**super().get_config(), "dimensions": list(self.dimensions)}


def cosine(vectors):
    """The cosine of the first two of (B, N, D): (B,)."""
    return ops.sum(unit(vectors[:, 0]) * unit(vectors[:, 1]), axis=-1)


def unit(vectors):
    """Divides by the L2 norm."""
    return vectors / ops.sqrt(ops.maximum(ops.sum(ops.square(vectors), axis=-1, keepdims=True), 1e-24))
