"""BERT's optimizer and its learning rate."""


from keras_bert.optimizers import BertAdamW, WarmupLinear


def warmup_linear(peak, warmup_steps, total_steps):
    """Gives the learning rate of BERT: a linear rise, then a linear fall to zero; counted in optimizer steps.

    Raises:
        ValueError: `warmup_steps` is negative or not below `total_steps`.
    """
    return WarmupLinear(peak, warmup_steps, total_steps)


def adamw(schedule, weight_decay=0.01):
    """Gives AdamW as BERT uses it: no decay on biases and layer norms, gradients clipped to a global norm of 1.

    Args:
        schedule: a learning rate or a schedule.

    Source: Devlin et al. 2018, appendix A.2. Differs: Adam's bias correction is on.
    """
    return BertAdamW(schedule, weight_decay=weight_decay, epsilon=1e-6, global_clipnorm=1.0)
