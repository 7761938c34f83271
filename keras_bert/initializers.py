"""How weights start."""

import contextlib
import contextvars

import keras
from keras import ops

_weights_follow = contextvars.ContextVar("weights_follow", default=False)


@contextlib.contextmanager
def weights_follow():
    """Lets kernels start as zeros inside the block: drawing bert-base at random takes as long as reading it."""
    token = _weights_follow.set(True)
    try:
        yield
    finally:
        _weights_follow.reset(token)


@keras.saving.register_keras_serializable("keras_bert")
class KernelInitializer(keras.initializers.TruncatedNormal):
    """BERT's start: a normal distribution cut at two standard deviations; zeros inside `weights_follow()`."""

    def __call__(self, shape, dtype=None):
        return ops.zeros(shape, dtype) if _weights_follow.get() else super().__call__(shape, dtype)
