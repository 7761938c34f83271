"""The heads: each a function from an encoder to a `keras.Model` that shares its layers, and a line in `HEADS`."""

import dataclasses
from collections.abc import Callable

import keras

from keras_bert import answers, layers
from keras_bert.encoder import config_of


def masked_language_model(encoder):
    """Predicts the tokens at `masked_positions` (B, P) int32: logits (B, P, V) float32.

    Only these positions go through the vocabulary, which is the token embedding itself, transposed. Without them, for a
    tiny encoder, the vocabulary would cost eight times the encoder.

    Source: Devlin et al. 2018, section 3.1, task 1.
    """
    positions = keras.Input((None,), dtype="int32", name="masked_positions")
    logits = _masked_logits(encoder, positions)
    return keras.Model({**encoder.input, "masked_positions": positions}, logits, name="masked_language_model")


def pretraining_model(encoder):
    """Both tasks of BERT's pretraining: `mlm_logits` (B, P, V), and `nsp_logits` (B, 2) for 0 = B follows A, 1 = not.

    Source: Devlin et al. 2018, section 3.1.
    """
    positions = keras.Input((None,), dtype="int32", name="masked_positions")
    outputs = {
        "mlm_logits": _masked_logits(encoder, positions),
        "nsp_logits": _float32_dense(encoder, 2, "nsp")(_pooled(encoder, "pretraining_model")),
    }
    return keras.Model({**encoder.input, "masked_positions": positions}, outputs, name="pretraining_model")


def sequence_classifier(encoder, num_classes):
    """Classifies a text or a pair from its pooled [CLS] vector: logits (B, C) float32."""
    if type(num_classes) is not int or num_classes < 2:
        raise ValueError(f"`num_classes` must be an integer of at least 2, got {num_classes!r}.")
    pooled = _pooled(encoder, "sequence_classifier")
    x = keras.layers.Dropout(config_of(encoder).hidden_dropout_prob, name="dropout")(pooled)
    logits = _float32_dense(encoder, num_classes, "logits")(x)
    return keras.Model(encoder.input, logits, name="sequence_classifier")


def sentence_embedder(encoder, pooling="mean", normalize=True):
    """Gives one vector a text, (B, D) float32: the `pooling` ("mean", "cls", "max") of its tokens, of length 1.

    Source: Reimers and Gurevych 2019, section 3.
    """
    pool = layers.SentencePooling(pooling, normalize, name="embedding")
    embedding = pool(encoder.output["sequence_output"], encoder.get_layer("mask").output)
    return keras.Model(encoder.input, embedding, name="sentence_embedder")


def _masked_logits(encoder, positions):
    x = layers.MaskedTransform(config_of(encoder), name="mlm")(encoder.output["sequence_output"], positions)
    logits = encoder.get_layer("token_embedding")(x, reverse=True)  # (B, P, V)
    return layers.VocabularyBias(name="mlm_bias")(logits)


def _pooled(encoder, head):
    if "pooled_output" not in encoder.output:
        raise ValueError(f"`{head}` needs an encoder with a pooler, but its config says `pooler=False`.")
    return encoder.output["pooled_output"]


def _float32_dense(encoder, units, name):
    # float32 logits even under mixed precision: the loss needs the range
    return layers.dense(units, config_of(encoder), name, "float32")


@dataclasses.dataclass(frozen=True)
class Head:
    """What the rest of the package needs to know of a head.

    Args:
        build: (encoder, **options) -> keras.Model.
        answer: the model's output -> dict of named answers, in `keras.ops`; what `predict` and every export give.
            None where there is no answer for a single text.
        rows: (answers as arrays of n texts, labels or vocabulary) -> what `predict` returns.
        pooler: whether it reads `pooled_output`.
        labelled: whether it has one output a label (`num_classes`).
        options: the names of further options of `build`, kept in `config.json`.
    """

    build: Callable
    answer: Callable | None = None
    rows: Callable | None = None
    pooler: bool = False
    labelled: bool = False
    options: tuple[str, ...] = ()


HEADS = {
    "masked_language_model": Head(masked_language_model, answers.words, answers.word_rows),
    "pretraining_model": Head(pretraining_model, pooler=True),
    "sequence_classifier": Head(sequence_classifier, answers.classes, answers.class_rows, pooler=True, labelled=True),
    "sentence_embedder": Head(
        sentence_embedder, answers.vectors, answers.vector_rows, options=("pooling", "normalize")
    ),
}
