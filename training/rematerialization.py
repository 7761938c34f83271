"""Uses TensorFlow. Encoder blocks whose inner values are computed again in the backward pass instead of being kept."""

import tensorflow as tf

from keras_bert.dropout import same_draws
from keras_bert.layers import EncoderBlock


def rematerialize_blocks(model):
    """Lets every encoder block inside `model` keep only its input during training; `keras.RematScope` would drop
    other numbers in the second pass than in the first.

    The blocks stay so, in every model that shares them; it shows in training only.

    Raises:
        ValueError: the model has no encoder block.

    Source: Chen et al. 2016.
    """
    blocks = [layer for layer in model._flatten_layers() if isinstance(layer, EncoderBlock)]
    if not blocks:
        raise ValueError("`rematerialize` needs encoder blocks of keras_bert in the model, got none.")
    for block in blocks:
        if not hasattr(block, "plain_call"):
            block.plain_call = block.call
            block.call = _twice(block.plain_call)


def _twice(call):
    """The same call, whose backward pass makes it again, with the same masks."""

    def rematerialized(x, mask, training=None):
        if not training:
            return call(x, mask, training=training)
        keys = []

        def body(x):
            with same_draws(keys):
                return call(x, mask, training=True)

        return tf.recompute_grad(body)(x)

    return rematerialized
