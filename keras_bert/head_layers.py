"""The layers that only some heads need, in `keras.ops` alone; layers.py has the shape letters."""

import keras
from keras import ops

from keras_bert.activations import ACTIVATION_FUNCTIONS, EMBEDDER_FUNCTIONS
from keras_bert.initializers import KernelInitializer
from keras_bert.layers import MASKED_SCORE, LayerNorm, as_config, dense, register


def embedder_dense(config, name, units, activation="tanh", bias=True):
    """Gives a float32 dense layer for sentence vectors; `activation` is one of `EMBEDDER_FUNCTIONS`."""
    if activation not in EMBEDDER_FUNCTIONS:
        raise ValueError(f"`activation` must be one of {', '.join(EMBEDDER_FUNCTIONS)}, got {activation!r}.")
    start = KernelInitializer(stddev=config.initializer_range)
    function = EMBEDDER_FUNCTIONS[activation]
    return keras.layers.Dense(units, function, bias, kernel_initializer=start, name=name, dtype="float32")


def gather_tokens(x, positions):
    """Takes the vectors at positions, end to end: (B, T, D), (B, P) -> (BP, D)."""
    batch, length, hidden = ops.shape(x)[0], ops.shape(x)[1], x.shape[-1]
    rows = ops.expand_dims(ops.arange(batch, dtype="int32") * length, 1) + positions  # (B, P)
    return ops.take(ops.reshape(x, (-1, hidden)), ops.reshape(rows, (-1,)), axis=0)


@register
class Squeeze(keras.layers.Layer):
    """Drops the last axis, of size 1: (..., 1) -> (...)."""

    def call(self, x):
        return ops.squeeze(x, -1)


@register
class FlattenChoices(keras.layers.Layer):
    """Makes one batch of all choices: (B, N, T) -> (BN, T)."""

    def call(self, x):
        return ops.reshape(x, (-1, ops.shape(x)[2]))

    def compute_output_spec(self, x):
        return keras.KerasTensor((None, x.shape[2]), dtype=x.dtype)


@register
class UnflattenChoices(keras.layers.Layer):
    """Gives each text its choices back: (BN, 1), with the (B, N, T) they came from -> (B, N)."""

    def call(self, x, choices):
        return ops.reshape(x, ops.shape(choices)[:2])

    def compute_output_spec(self, x, choices):
        return keras.KerasTensor(choices.shape[:2], dtype=x.dtype)


@register
class MaskedTransform(keras.layers.Layer):
    """Gathers the masked positions and makes them ready for the vocabulary: (B, T, D), (B, P) -> (B, P, E)."""

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config = as_config(config)
        self.dense = dense(config.embedding_width, config, "dense", self.dtype_policy)
        self.norm = LayerNorm(config.layer_norm_eps, name="norm", dtype=self.dtype_policy)

    def build(self, *input_shapes):
        self.dense.build((None, self.config.hidden_size))
        self.norm.build((None, self.config.embedding_width))

    def call(self, x, positions):
        y = self.norm(ACTIVATION_FUNCTIONS[self.config.hidden_act](self.dense(gather_tokens(x, positions))))  # (BP, E)
        return ops.reshape(y, (*ops.shape(positions), self.config.embedding_width))

    def compute_output_spec(self, x, positions):
        return keras.KerasTensor((*positions.shape, self.config.embedding_width), dtype=self.compute_dtype)

    def get_config(self):
        return {**super().get_config(), "config": self.config.to_dict()}


@register
class VocabularyBias(keras.layers.Layer):
    """Adds a bias per token of the vocabulary, in float32: (B, P, V) -> (B, P, V)."""

    def build(self, input_shape):
        self.bias = self.add_weight(shape=input_shape[-1:], initializer="zeros", name="bias")

    def call(self, logits):
        return ops.cast(logits, "float32") + ops.cast(self.bias, "float32")

    def compute_output_spec(self, logits):
        return keras.KerasTensor(logits.shape, dtype="float32")


POOLINGS = ("mean", "cls", "max", "mean_sqrt_len", "lasttoken")


@register
class SentencePooling(keras.layers.Layer):
    """One vector a text from its token vectors, in float32: (B, T, D), mask (B, T) -> (B, D).

    Args:
        pooling: of the real tokens the "mean", the "max", the sum over the root of their number ("mean_sqrt_len"), or
            the last ("lasttoken"); "cls" for the first.
    """

    def __init__(self, pooling="mean", **kwargs):
        super().__init__(**kwargs)
        if pooling not in POOLINGS:
            raise ValueError(f"`pooling` must be one of {', '.join(POOLINGS)}, got {pooling!r}.")
        self.pooling = pooling

    def call(self, x, mask):
        x = ops.cast(x, "float32")
        if self.pooling == "cls":
            return x[:, 0]
        if self.pooling == "lasttoken":
            mask = ops.cast(mask, "int32")
            mask = mask * ops.cast(ops.equal(ops.cumsum(mask, axis=1), ops.sum(mask, axis=1, keepdims=True)), "int32")
        mask = ops.expand_dims(ops.cast(mask, "float32"), -1)  # (B, T, 1)
        if self.pooling == "max":
            return ops.max(x * mask + (1.0 - mask) * MASKED_SCORE, axis=1)
        count = ops.maximum(ops.sum(mask, axis=1), 1e-9)  # a text of padding alone gives zeros, not NaN
        return ops.sum(x * mask, axis=1) / (ops.sqrt(count) if self.pooling == "mean_sqrt_len" else count)

    def compute_output_spec(self, x, mask):
        return keras.KerasTensor((x.shape[0], x.shape[-1]), dtype="float32")

    def get_config(self):
        return {**super().get_config(), "pooling": self.pooling}


@register
class UnitLength(keras.layers.Layer):
    """Divides by the L2 norm: (B, D) -> (B, D)."""

    def call(self, x):
        return x / ops.sqrt(ops.maximum(ops.sum(ops.square(x), axis=-1, keepdims=True), 1e-24))
