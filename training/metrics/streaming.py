"""A metric for `compile` that Keras lacks. Accuracy, F1 and Pearson's correlation are in `keras.metrics`."""

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_bert")
class MatthewsCorrelation(keras.metrics.Metric):
    """Matthews correlation over all batches since `reset_state`.

    Args:
        num_classes: C; `y_true` is (B,) int, `y_pred` (B, C) logits or probabilities.
    """

    def __init__(self, num_classes, name="matthews", **kwargs):
        super().__init__(name=name, **kwargs)
        self.num_classes = num_classes
        self.confusion = self.add_weight(shape=(num_classes, num_classes), initializer="zeros", name="confusion")

    def update_state(self, y_true, y_pred, sample_weight=None):
        true = ops.one_hot(ops.cast(ops.reshape(y_true, (-1,)), "int32"), self.num_classes)
        answered = ops.one_hot(ops.argmax(y_pred, axis=-1), self.num_classes)
        if sample_weight is not None:
            true = true * ops.expand_dims(ops.cast(ops.reshape(sample_weight, (-1,)), true.dtype), 1)
        self.confusion.assign_add(ops.cast(ops.matmul(ops.transpose(true), answered), self.confusion.dtype))

    def result(self):
        confusion = self.confusion
        total, right = ops.sum(confusion), ops.sum(ops.diagonal(confusion))
        true, answered = ops.sum(confusion, axis=1), ops.sum(confusion, axis=0)
        scale = ops.sqrt(total**2 - ops.sum(true**2)) * ops.sqrt(total**2 - ops.sum(answered**2))
        return ops.where(scale > 0, (right * total - ops.sum(true * answered)) / ops.maximum(scale, 1e-9), 0.0)

    def get_config(self):
        return {**super().get_config(), "num_classes": self.num_classes}
