"""Losses and metrics of every task, as arguments of `compile`; each loss is sum(w l) / sum(w)."""

import keras
from keras import ops

from keras_bert.layers import register


def masked_cross_entropy(name="masked_cross_entropy"):
    """Cross entropy from logits, sum(w * l) / sum(w).

    Keras's default, "sum_over_batch_size", would divide by all slots, the unused ones too.
    """
    return keras.losses.SparseCategoricalCrossentropy(True, reduction="mean_with_sample_weight", name=name)


def label_cross_entropy():
    """Binary cross entropy of each label by itself: targets (B, C) of 0 and 1, logits (B, C)."""
    return keras.losses.BinaryCrossentropy(from_logits=True, reduction="mean_with_sample_weight")


@register
def squared_error(y_true, y_pred):
    """Squared error of numbers (B,), one an example; Keras's own would take their mean as it is."""
    return ops.square(ops.cast(y_true, y_pred.dtype) - y_pred)


@register
def graded_cross_entropy(y_true, y_pred):
    """Binary cross entropy of scores (B,), which are logits, and grades (B,) from 0 to 1, one an example."""
    y_pred, y_true = ops.cast(y_pred, "float32"), ops.cast(y_true, "float32")
    return ops.softplus(y_pred) - y_true * y_pred


@register
def span_cross_entropy(y_true, y_pred):
    """Mean cross entropy of an answer's first and last token, one an example.

    Padding has no part in it: the loss does not depend on the rows that an example is batched with.

    Args:
        y_true: (B, T, 2), 1 at the first and at the last token, else 0, -1 at padding.
        y_pred: (B, T, 2) logits.

    Source: Devlin et al. 2018, section 4.2.
    """
    logits = ops.where(y_true < 0, -1e9, ops.cast(y_pred, "float32"))
    chosen = ops.cast(ops.maximum(y_true, 0), "float32")
    return -ops.mean(ops.sum(chosen * ops.log_softmax(logits, axis=1), axis=1), axis=-1)


def masked_metrics():
    """Accuracy and cross entropy over the chosen tokens of all batches: for `weighted_metrics`."""
    return [
        keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
        keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="cross_entropy"),
    ]


def pretraining_objectives(outputs=("mlm_logits", "nsp_logits")):
    """`loss` and `weighted_metrics` of `pretraining_model.compile`: the sum of the tasks' means, as BERT has it.

    Args:
        outputs: names of the model's outputs.

    Source: Devlin et al. 2018, appendix A.2.
    """
    return {
        "loss": {name: masked_cross_entropy(name) for name in outputs},
        "weighted_metrics": {name: masked_metrics() for name in outputs},
    }
