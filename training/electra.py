"""Uses TensorFlow. ELECTRA: a generator fills masks, a detector tells which tokens are other ones; both learn."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

from keras_bert.encoder import config_of
from keras_bert.layers import register
from keras_bert.training.losses import masked_cross_entropy, masked_metrics
from keras_bert.training.replaced_tokens import replaced_tokens

DETECTOR_WEIGHT = 50.0  # of its loss, beside the generator's


def generator_config(config, share):
    """Gives the config of a generator for a detector's: as deep, `share` as wide, with heads of the same size.

    Raises:
        ValueError: `share` is not above 0 and at most 1.

    Source: Clark et al. 2020, section 3.2.
    """
    if not 0 < share <= 1:
        raise ValueError(f"`share` must be above 0 and at most 1, got {share}.")
    heads = max(1, round(config.num_attention_heads * share))
    width = heads * (config.hidden_size // config.num_attention_heads)
    return dataclasses.replace(
        config,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=max(1, round(config.intermediate_size * width / config.hidden_size)),
        embedding_size=None if width == config.embedding_width else config.embedding_width,
    )


def with_token_embedding(model, other):
    """Gives a head's `model` with the token embedding of `other`, a model with an encoder, in place of its own.

    Raises:
        ValueError: the two tables have other sizes.
    """
    one, two = config_of(model), config_of(other)
    if (one.vocab_size, one.embedding_width) != (two.vocab_size, two.embedding_width):
        sizes = f"{one.vocab_size} x {one.embedding_width} and {two.vocab_size} x {two.embedding_width}"
        raise ValueError(f"Generator and detector must have token embeddings of one size, got {sizes}.")
    own, shared = model.get_layer("token_embedding"), other.get_layer("token_embedding")

    def call(layer, *args, **kwargs):
        return (shared if layer is own else layer)(*args, **kwargs)

    return keras.Model(model.input, model._run_through_graph(model.input, call_fn=call), name=model.name)


def electra(generator, detector, *, seed, allowed):
    """Gives a model that trains both.

    generator = with_token_embedding(generator, detector)
    model = electra(generator, detector, seed=0, allowed=maskable_table(tokenizer.vocab, tokenizer.special_ids))
    model.compile(adamw(5e-4), **electra_objectives())
    model.fit(batches.map(electra_targets))  # batches for `masked_language_model`, masked by ELECTRA_SHARES

    Args:
        generator: a `masked_language_model`; detector: a `replaced_token_detector`.
        seed: decides what is drawn, with the rows themselves.
        allowed: (V,) bool, which tokens may be drawn.

    Returns:
        A `keras.Model`. Inputs: the generator's, and its "labels" (B, P) int32 and "weights" (B, P) float32. Outputs:
        "mlm_logits" (B, P, V), and "detector_logits" (B, T, 2) float32: the detector's logits, and beside them 1 where
        a token is another one than in the text. No gradient flows from the detector to the generator.

    Source: Clark et al. 2020. Differs: of the embeddings the tokens' are shared, not those of positions.
    """
    inputs = {
        name: keras.Input(value.shape[1:], dtype=value.dtype, name=name) for name, value in generator.input.items()
    }
    labels = keras.Input((None,), dtype="int32", name="labels")
    weights = keras.Input((None,), dtype="float32", name="weights")
    logits = generator(inputs)
    filled, replaced = ReplacedTokens(seed, allowed, name="replaced_tokens")(
        inputs["token_ids"], inputs["masked_positions"], labels, weights, logits
    )
    seen = {name: inputs[name] for name in detector.input if name != "token_ids"}
    found = Beside(name="detector_logits")(detector({"token_ids": filled, **seen}), replaced)
    outputs = {"mlm_logits": logits, "detector_logits": found}
    return keras.Model({**inputs, "labels": labels, "weights": weights}, outputs, name="electra")


def electra_objectives():
    """`loss`, `loss_weights` and `weighted_metrics` of `electra(...).compile`."""
    return {
        "loss": {"mlm_logits": masked_cross_entropy("mlm_logits"), "detector_logits": Detection()},
        "loss_weights": {"mlm_logits": 1.0, "detector_logits": DETECTOR_WEIGHT},
        "weighted_metrics": {
            "mlm_logits": masked_metrics(),
            "detector_logits": [
                keras.metrics.MeanMetricWrapper(detection_accuracy, name="accuracy"),
                keras.metrics.MeanMetricWrapper(detection_cross_entropy, name="cross_entropy"),
            ],
        },
    }


def electra_targets(x, y, sample_weight):
    """From a batch for `masked_language_model` to one for `electra`: for tf.data's `map`."""
    real = tf.cast(x["padding_mask"], tf.float32)
    targets = {"mlm_logits": y, "detector_logits": x["padding_mask"]}  # the detector's come with its logits
    return {**x, "labels": y, "weights": sample_weight}, targets, {"mlm_logits": sample_weight, "detector_logits": real}


def detection_cross_entropy(_, found):
    """(B, T) float32, binary cross entropy of "detector_logits" (B, T, 2)."""
    logits, replaced = tf.unstack(tf.cast(found, tf.float32), axis=-1)
    return tf.nn.sigmoid_cross_entropy_with_logits(replaced, logits)


def detection_accuracy(_, found):
    """(B, T) float32, 1 where the detector is right."""
    logits, replaced = tf.unstack(tf.cast(found, tf.float32), axis=-1)
    return tf.cast((logits > 0) == (replaced > 0.5), tf.float32)


@register
class Detection(keras.losses.Loss):
    """The mean of `detection_cross_entropy` over real tokens."""

    def __init__(self, name="detector_logits", reduction="mean_with_sample_weight", **kwargs):
        super().__init__(name=name, reduction=reduction, **kwargs)

    def call(self, y_true, y_pred):
        return detection_cross_entropy(y_true, y_pred)


class ReplacedTokens(keras.layers.Layer):
    """`replaced_tokens` as a layer: what the detector reads, and its answers, both (B, T) int32."""

    def __init__(self, seed, allowed, **kwargs):
        super().__init__(dtype="float32", **kwargs)
        self.seed, self.allowed = seed, np.array(allowed, bool)

    def call(self, token_ids, masked_positions, labels, weights, logits):
        return replaced_tokens(
            token_ids, masked_positions, labels, weights, logits, seed=self.seed, allowed=self.allowed
        )

    def compute_output_spec(self, token_ids, *_):
        return tuple(keras.KerasTensor(token_ids.shape, dtype="int32") for _ in range(2))


class Beside(keras.layers.Layer):
    """Two arrays (B, T) as one, (B, T, 2) float32."""

    def call(self, one, other):
        return tf.stack([tf.cast(one, tf.float32), tf.cast(other, tf.float32)], axis=-1)

    def compute_output_spec(self, one, _):
        return keras.KerasTensor((*one.shape, 2), dtype="float32")
