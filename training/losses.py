"""Losses and metrics of pretraining, as arguments of `compile`."""

import keras


def masked_cross_entropy(name="masked_cross_entropy"):
    """Cross entropy from logits, sum(w * l) / sum(w).

    Keras's default, "sum_over_batch_size", would divide by all slots, the unused ones too.
    """
    return keras.losses.SparseCategoricalCrossentropy(True, reduction="mean_with_sample_weight", name=name)


def masked_metrics():
    """Accuracy and cross entropy over the chosen tokens of all batches: for `weighted_metrics`."""
    return [
        keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
        keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="cross_entropy"),
    ]


def pretraining_objectives():
    """`loss` and `weighted_metrics` of `pretraining_model.compile`: the sum of both tasks' means, as BERT has it.

    Source: Devlin et al. 2018, appendix A.2.
    """
    outputs = ("mlm_logits", "nsp_logits")
    return {
        "loss": {name: masked_cross_entropy(name) for name in outputs},
        "weighted_metrics": {name: masked_metrics() for name in outputs},
    }
