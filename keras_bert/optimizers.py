"""Learning rates over the steps of a training, registered so that `.keras` files with them load."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("keras_bert")
class WarmupLinear(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly to `peak` over `warmup_steps`, then falls linearly to zero at `total_steps`."""

    def __init__(self, peak, warmup_steps, total_steps):
        if not 0 <= warmup_steps < total_steps:
            raise ValueError(
                f"`warmup_steps` must be at least 0 and below `total_steps`, got {warmup_steps} and {total_steps}."
            )
        self.peak, self.warmup_steps, self.total_steps = peak, warmup_steps, total_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rising = (step + 1) / max(1, self.warmup_steps)  # the first step, 0, already moves
        falling = (self.total_steps - step) / (self.total_steps - self.warmup_steps)
        return self.peak * ops.clip(ops.minimum(rising, falling), 0.0, 1.0)

    def get_config(self):
        return {"peak": self.peak, "warmup_steps": self.warmup_steps, "total_steps": self.total_steps}


@keras.saving.register_keras_serializable("keras_bert")
class BertAdamW(keras.optimizers.AdamW):
    """AdamW that never decays vectors: biases and layer norms' gamma and beta.

    By shape, not by list: Keras does not store its own exclusions, so a loaded optimizer would decay everything.
    """

    def _use_weight_decay(self, variable):
        return decayed(variable)


def decayed(variable):
    """Whether weight decay changes a weight: it leaves vectors alone, and biases that are matrices."""
    return len(variable.shape) >= 2 and variable.name != "bias"
