"""BERT's optimizer and its learning rate."""

import keras

from keras_bert.schedules import WarmupLinear


def warmup_linear(peak, warmup_steps, total_steps):
    """Gives the learning rate of BERT: a linear rise, then a linear fall to zero; counted in optimizer steps.

    Raises:
        ValueError: `warmup_steps` is negative or not below `total_steps`.
    """
    return WarmupLinear(peak, warmup_steps, total_steps)


def adamw(schedule, model, weight_decay=0.01):
    """Gives AdamW as BERT uses it: no decay on biases and layer norms, gradients clipped to a global norm of 1.

    Args:
        schedule: a learning rate or a schedule.
        model: whose biases and norms are left out, by object: Keras's own exclusion by name looks at "bias" and
            "gamma", not at the layer, and says nothing where a pattern fits no weight.

    Source: Devlin et al. 2018, appendix A.2. Differs: Adam's bias correction is on.
    """
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=weight_decay, epsilon=1e-6, global_clipnorm=1.0)
    optimizer.exclude_from_weight_decay(var_list=undecayed(model))
    return optimizer


def undecayed(model):
    """The weights that weight decay leaves alone: every vector, that is biases and layer norms' gamma and beta."""
    return [weight for weight in model.trainable_weights if len(weight.shape) < 2 or weight.name == "bias"]
