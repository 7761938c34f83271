"""Uses TensorFlow where it is the backend. Optimizers and learning rates, registered so that `.keras` files load."""

import math
import re
import typing

import keras
from keras import ops


def _linear(step, warmup, total, _):
    return (total - step) / (total - warmup)


def _cosine(step, warmup, total, _):
    return 0.5 * (1.0 + ops.cos(math.pi * ops.clip((step - warmup) / (total - warmup), 0.0, 1.0)))


def _inverse_square_root(step, warmup, _total, _decay):
    return ops.sqrt(max(1, warmup) / (step + 1))


def _stable_decay(step, _, total, decay):
    return (total - step) / decay


# What follows the rise: (step, warmup_steps, total_steps, decay_steps) -> share of the peak, 1 or more while it stays.
SHAPES = {
    "linear": _linear,
    "cosine": _cosine,
    "inverse_square_root": _inverse_square_root,
    "stable_decay": _stable_decay,
}


@keras.saving.register_keras_serializable("keras_bert", name="WarmupLinear")  # as files of 0.1.0 have it
class Warmup(keras.optimizers.schedules.LearningRateSchedule):
    """Rises linearly to `peak` over `warmup_steps`, then falls.

    Args:
        shape: key in `SHAPES`. "linear" and "cosine" fall to zero at `total_steps`; "inverse_square_root" falls as one
            over the root of the step, whatever `total_steps` is; "stable_decay" stays at the peak and falls linearly to
            zero in the last `decay_steps`.
        decay_steps: of "stable_decay"; 0 takes a tenth of `total_steps`.

    Sources: Devlin et al. 2018 (linear); Loshchilov and Hutter 2017 (cosine); Vaswani et al. 2017, section 5.3 (inverse
    square root); Hu et al. 2024, section 4 (stable_decay). Differs: that one falls linearly, not exponentially.
    """

    def __init__(self, peak, warmup_steps, total_steps, shape="linear", decay_steps=0):
        if shape not in SHAPES:
            raise ValueError(f"`shape` must be one of {', '.join(SHAPES)}, got {shape!r}.")
        if not 0 <= warmup_steps < total_steps:
            raise ValueError(
                f"`warmup_steps` must be at least 0 and below `total_steps`, got {warmup_steps} and {total_steps}."
            )
        if not 0 <= decay_steps <= total_steps - warmup_steps:
            raise ValueError(
                f"`decay_steps` must be at least 0 and at most `total_steps` - `warmup_steps`, got {decay_steps}."
            )
        self.peak, self.warmup_steps, self.total_steps = peak, warmup_steps, total_steps
        self.shape, self.decay_steps = shape, decay_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rising = (step + 1) / max(1, self.warmup_steps)  # the first step, 0, already moves
        decay_steps = self.decay_steps or min(max(1, self.total_steps // 10), self.total_steps - self.warmup_steps)
        falling = SHAPES[self.shape](step, self.warmup_steps, self.total_steps, decay_steps)
        return self.peak * ops.clip(ops.minimum(rising, falling), 0.0, 1.0)

    def get_config(self):
        names = ("peak", "warmup_steps", "total_steps", "shape", "decay_steps")
        return {name: getattr(self, name) for name in names}


class Rule(typing.NamedTuple):
    """How an optimizer treats one weight.

    Attributes:
        decayed: whether weight decay changes it, and LAMB scales its steps by the trust ratio.
        rate: what its learning rate is multiplied by.
    """

    decayed: bool
    rate: float


def decayed(variable):
    """Whether weight decay changes a weight: it leaves vectors alone, and biases that are matrices."""
    return len(variable.shape) >= 2 and variable.name != "bias"


def rules(optimizer, variables):
    """Gives the `Rule` of each weight, by what it is, not by a list: Keras does not store its own exclusions.

    What the optimizer's `exclude_from_weight_decay` names is not decayed either, until it is loaded from a file.
    Where it has a `layer_decay`, each encoder block learns this much slower than the one above it; the embeddings are
    below the first block, heads and pooler above the last.
    """
    layer_decay = getattr(optimizer, "layer_decay", 1.0)
    blocks = [_block(variable.path) for variable in variables]
    top = max(blocks, default=0)
    heights = [0 if block < 0 else top + 1 - block for block in blocks]  # 0 for heads
    return tuple(
        Rule(decayed(variable) and optimizer._use_weight_decay(variable), layer_decay**height)
        for variable, height in zip(variables, heights, strict=True)
    )


def _block(path):
    """0 for the embeddings, i + 1 for block i, -1 for what belongs to neither."""
    found = re.search(r"(?:^|/)(?:layer_(\d+)|token_embedding|embeddings)/", path)
    return -1 if found is None else 0 if found[1] is None else int(found[1]) + 1


@keras.saving.register_keras_serializable("keras_bert")
class BertAdamW(keras.optimizers.AdamW):
    """AdamW that never decays vectors: biases and layer norms' gamma and beta.

    Args:
        bias_correction: False leaves Adam's out, as BERT's own code did.
        layer_decay: as in `rules`; 1 for one learning rate.
        kwargs: those of `keras.optimizers.AdamW` but `amsgrad`.

    Source: Loshchilov and Hutter 2019, algorithm 2; layer_decay: Clark et al. 2020, appendix B.
    """

    def __init__(self, *args, bias_correction=True, layer_decay=1.0, **kwargs):
        if not 0 < layer_decay <= 1:
            raise ValueError(f"`layer_decay` must be above 0 and at most 1, got {layer_decay}.")
        if kwargs.get("amsgrad"):
            raise ValueError("`amsgrad` must be False: it is not built here.")
        super().__init__(*args, **kwargs)
        self.bias_correction, self.layer_decay = bias_correction, layer_decay

    def build(self, variables):
        super().build(variables)
        self.rules = rules(self, variables)

    def apply(self, grads, trainable_variables=None):
        super().apply(_dense(grads), trainable_variables)

    def update_step(self, gradient, variable, learning_rate):
        rule = self.rules[self._get_variable_index(variable)]
        update = _adam_update(self, gradient, variable, rule.decayed)
        self.assign_sub(variable, ops.cast(learning_rate * rule.rate, variable.dtype) * update)

    def _apply_weight_decay(self, variables):
        """Does nothing: decay is a part of the update."""

    def get_config(self):
        own = {"bias_correction": self.bias_correction, "layer_decay": self.layer_decay}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable("keras_bert")
class Lamb(keras.optimizers.Adam):
    """LAMB: Adam's step and the decay, scaled by the norm of each weight over the norm of its update.

    Vectors, and biases that are matrices, are neither decayed nor scaled, as in the authors' code.

    Args:
        kwargs: those of `keras.optimizers.Adam` but `amsgrad`.

    Source: You et al. 2019, algorithm 2, with the identity for its function of the norm, as in the authors' code.
    """

    bias_correction = True

    def build(self, variables):
        super().build(variables)
        self.rules = rules(self, variables)

    def apply(self, grads, trainable_variables=None):
        super().apply(_dense(grads), trainable_variables)

    def update_step(self, gradient, variable, learning_rate):
        scaled = self.rules[self._get_variable_index(variable)].decayed
        update = _adam_update(self, gradient, variable, scaled)
        step = ops.cast(learning_rate, variable.dtype) * update
        self.assign_sub(variable, _trust_ratio(variable, update) * step if scaled else step)

    def _apply_weight_decay(self, variables):
        """Does nothing: decay is a part of the update, inside the trust ratio."""


def _dense(gradients):
    """Adds up what a token embedding gets for a token that comes several times, as one row.

    TensorFlow gives it a row each time. Keras would square and sum these one by one: another norm to clip by, other
    moments; it takes them for tensors, so that its own conversion changes nothing.
    """
    if keras.backend.backend() != "tensorflow":
        return gradients
    import tensorflow as tf

    return [None if gradient is None else tf.convert_to_tensor(gradient) for gradient in gradients]


def _adam_update(optimizer, gradient, variable, is_decayed):
    """Moves Adam's moments, and gives m / (sqrt(v) + eps) + decay * weight, before the learning rate."""
    dtype, index = variable.dtype, optimizer._get_variable_index(variable)
    gradient = ops.cast(gradient, dtype)
    m, v = optimizer._momentums[index], optimizer._velocities[index]
    optimizer.assign_add(m, ops.multiply(ops.subtract(gradient, m), 1 - optimizer.beta_1))
    optimizer.assign_add(v, ops.multiply(ops.subtract(ops.square(gradient), v), 1 - optimizer.beta_2))
    if optimizer.bias_correction:
        step = ops.cast(optimizer.iterations + 1, "float32")
        m = m / ops.cast(_one_minus_power(optimizer.beta_1, step), dtype)
        v = v / ops.cast(_one_minus_power(optimizer.beta_2, step), dtype)
    update = m / (ops.sqrt(v) + optimizer.epsilon)
    if is_decayed and optimizer.weight_decay:
        update = update + variable * optimizer.weight_decay
    return update


def _one_minus_power(beta, step):
    """1 - beta ** step, without float32's error in 1 - 0.999, of 1e-5."""
    return -ops.expm1(step * math.log(beta)) if beta else ops.ones_like(step)


def _trust_ratio(variable, update):
    """|weight| / |update|, or 1 where either is 0; in float32, as squares of half precision overflow."""
    weight, step = (ops.sqrt(ops.sum(ops.square(ops.cast(x, "float32")))) for x in (variable, update))
    both = ops.logical_and(weight > 0, step > 0)
    return ops.cast(ops.where(both, weight / ops.where(both, step, 1.0), 1.0), variable.dtype)
