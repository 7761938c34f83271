"""Dense layers with BERT's start: of heads, and of the encoder's blocks, where they may be frozen beside an adapter."""

import keras
from keras import ops

from keras_bert.dropout import Dropout
from keras_bert.initializers import KernelInitializer


def dense(units, config, name, dtype):
    """Gives a dense layer with BERT's start."""
    start = KernelInitializer(stddev=config.initializer_range)
    return keras.layers.Dense(units, kernel_initializer=start, name=name, dtype=dtype)


def projection(units, config, name, dtype, target=None):
    """Gives a dense layer of a block: with `config.lora` it is frozen, and has an adapter where that names it.

    Args:
        target: what `config.lora` calls it, where that is not `name`.
    """
    lora = config.lora
    if lora is None:
        return dense(units, config, name, dtype)
    adapter = lora if (target or name) in lora.targets else None
    return FrozenDense(units, adapter, config.initializer_range, name=name, dtype=dtype)


def maker_of(tensor):
    """The layer that made a symbolic tensor; None where Keras only asks for a shape."""
    return getattr(getattr(tensor, "_keras_history", None), "operation", None)


def stay_frozen(*layers):
    """Freezes the weights of frozen layers: Keras forgets that when it loads a `.keras` file, and would train them."""
    for layer in layers:
        if not getattr(layer, "trainable", True):
            layer.trainable = True  # setting what is set already does nothing
            layer.trainable = False


class FrozenDense(keras.layers.Layer):
    """x W + b with W and b frozen, plus s dropout(x) A B, which learns: (..., I) -> (..., O), A (I, R), B (R, O).

    s is alpha / rank. Without an adapter the second part is missing.

    Source: Hu et al. 2021, section 4.1. Differs: A starts as in the authors' code, uniform within 1 / sqrt(I).
    """

    def __init__(self, units, adapter, initializer_range, **kwargs):
        super().__init__(**kwargs)
        self.units, self.adapter = units, adapter
        self.start = KernelInitializer(stddev=initializer_range)
        if adapter is not None:
            self.dropout = Dropout(adapter.dropout, name="dropout", dtype=self.dtype_policy)

    def build(self, input_shape):
        width, adapter = input_shape[-1], self.adapter
        shape = (width, self.units)
        self.kernel = self.add_weight(shape=shape, initializer=self.start, trainable=False, name="kernel")
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros", trainable=False, name="bias")
        if adapter is not None:
            # float32 even where the policy is half precision: small steps would be lost
            start = keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")
            self.lora_a = self.add_weight(
                shape=(width, adapter.rank), initializer=start, dtype="float32", name="lora_a"
            )
            self.lora_b = self.add_weight(
                shape=(adapter.rank, self.units), initializer="zeros", dtype="float32", name="lora_b"
            )

    def call(self, x, training=None):
        y = ops.matmul(x, self.kernel) + self.bias
        if self.adapter is None:
            return y
        low = ops.matmul(self.dropout(x, training=training), self.lora_a) * self.adapter.scale  # (..., R)
        return y + ops.matmul(low, self.lora_b)


def without_adapters(weights, lora):
    """Gives the weights that a model without adapters has: each kernel with its product A B added.

    Args:
        weights: dict from weight path to weight.
        lora: the `Lora` of the model's config, or None: then they are the same.
    """
    plain = {path: weight for path, weight in weights.items() if path.rsplit("/", 1)[-1] not in ("lora_a", "lora_b")}
    for path in weights:
        if path.endswith("/lora_a"):
            layer = path.removesuffix("lora_a")
            plain[f"{layer}kernel"] = weights[f"{layer}kernel"] + product(weights, layer, lora)
    return plain


def product(weights, layer, lora):
    """What an adapter adds to its kernel, (I, O) in its dtype: s A B."""
    value = lora.scale * ops.matmul(weights[f"{layer}lora_a"], weights[f"{layer}lora_b"])
    return ops.cast(value, weights[f"{layer}kernel"].dtype)
