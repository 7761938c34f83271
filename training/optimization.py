"""BERT's optimizers and learning rates, and a table of what is decayed."""

import math

from rich.console import Console
from rich.table import Table

from keras_bert.optimizers import BertAdamW, Lamb, Warmup, rules


def warmup_linear(peak, warmup_steps, total_steps):
    """Gives the learning rate of BERT: a linear rise, then a linear fall to zero; counted in optimizer steps.

    Other shapes: `keras_bert.optimizers.Warmup`.

    Raises:
        ValueError: `warmup_steps` is negative or not below `total_steps`.
    """
    return Warmup(peak, warmup_steps, total_steps)


def adamw(schedule, weight_decay=0.01, bias_correction=True, layer_decay=1.0):
    """Gives AdamW as BERT uses it: no decay on biases and layer norms, gradients clipped to a global norm of 1.

    Args:
        schedule: a learning rate or a schedule.
        bias_correction: Adam's; BERT's own code left it out.
        layer_decay: how much slower each encoder block learns than the one above it; 1 for all alike.

    Source: Devlin et al. 2018, appendix A.2.
    """
    return BertAdamW(
        schedule,
        weight_decay=weight_decay,
        epsilon=1e-6,
        global_clipnorm=1.0,
        bias_correction=bias_correction,
        layer_decay=layer_decay,
    )


def lamb(schedule, weight_decay=0.01):
    """Gives LAMB, for batches of thousands; gradients are clipped to a global norm of 1.

    Args:
        schedule: a learning rate or a schedule.

    Source: You et al. 2019.
    """
    return Lamb(schedule, weight_decay=weight_decay, epsilon=1e-6, global_clipnorm=1.0)


def decay_table(model, optimizer):
    """Gives a rich table of what `optimizer` will do to the weights of `model`: decay, and the learning rate's factor.

    One line for the weights of one name that are treated alike; frozen ones too.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # that of loss scaling
    lines = {}
    found = rules(optimizer, model.weights)
    trained = {id(weight) for weight in model.trainable_weights}
    for weight, rule in zip(model.weights, found, strict=True):
        frozen = id(weight) not in trained
        line = (weight.name, "frozen" if frozen else "yes" if rule.decayed else "no", "" if frozen else rule.rate)
        lines.setdefault(line, []).append(weight)
    table = Table(title=f"weight decay {optimizer.weight_decay}", title_justify="left")
    for column in ("weight", "number", "parameters", "decayed", "learning rate"):
        table.add_column(column, justify="right" if column in ("number", "parameters") else "left")
    for (name, decay, rate), weights in lines.items():
        parameters = sum(math.prod(weight.shape) for weight in weights)
        factor = f"x {rate:.3g}" if rate != "" else ""
        table.add_row(name, str(len(weights)), f"{parameters:,}", decay, factor)
    return table


def print_decay(model):
    """Prints the `decay_table` of a compiled model on standard error."""
    Console(stderr=True).print(decay_table(model, model.optimizer))
