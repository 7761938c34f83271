"""The heads: each a function from an encoder to a `keras.Model` that shares its layers, and a line in `HEADS`."""

import dataclasses
from collections.abc import Callable

import keras

from keras_bert import answers, head_layers, layers
from keras_bert.activations import ACTIVATION_FUNCTIONS, CLASSIFIER_FUNCTIONS
from keras_bert.dropout import Dropout
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


def next_sentence(encoder):
    """Tells whether the second text follows the first (SOP: in this order): logits (B, 2), 0 = it does, 1 = not."""
    logits = _float32_dense(encoder, 2, "nsp")(_pooled(encoder, "next_sentence"))
    return keras.Model(encoder.input, logits, name="next_sentence")


def sequence_classifier(encoder, num_classes, multi_label=False):
    """Classifies a text or a pair from its [CLS] vector: logits (B, C) float32, `multi_label` each for itself."""
    if type(num_classes) is not int or num_classes < 2:
        raise ValueError(f"`num_classes` must be an integer of at least 2, got {num_classes!r}.")
    x = _classifier_input(encoder, encoder.output, "sequence_classifier")
    return keras.Model(encoder.input, _float32_dense(encoder, num_classes, "logits")(x), name="sequence_classifier")


def sequence_regressor(encoder):
    """Gives a text or a pair one number, such as a similarity: score (B,) float32."""
    return _scorer(encoder, "sequence_regressor")


def reranker(encoder):
    """Scores how well a passage, the second text, answers a query, the first: score (B,) float32, higher is better.

    Source: Nogueira and Cho 2019.
    """
    return _scorer(encoder, "reranker")


def token_classifier(encoder, num_classes):
    """Classifies every token: logits (B, T, C) float32."""
    if type(num_classes) is not int or num_classes < 2:
        raise ValueError(f"`num_classes` must be an integer of at least 2, got {num_classes!r}.")
    x = _dropout(encoder, "dropout")(encoder.output["sequence_output"])
    return keras.Model(encoder.input, _float32_dense(encoder, num_classes, "logits")(x), name="token_classifier")


def span_extractor(encoder):
    """Scores every token as the start and as the end of an answer: logits (B, T, 2) float32.

    Source: Devlin et al. 2018, section 4.2.
    """
    logits = _float32_dense(encoder, 2, "logits")(encoder.output["sequence_output"])
    return keras.Model(encoder.input, logits, name="span_extractor")


def multiple_choice(encoder):
    """Scores N texts against each other, all inputs (B, N, T): logits (B, N) float32.

    Source: Devlin et al. 2018, section 4.4.
    """
    inputs = {name: keras.Input((None, None), dtype="int32", name=name) for name in encoder.input}
    flat = {name: head_layers.FlattenChoices(name=f"flat_{name}")(value) for name, value in inputs.items()}
    x = _classifier_input(encoder, encoder(flat), "multiple_choice")  # (BN, D)
    logits = _float32_dense(encoder, 1, "logits")(x)
    logits = head_layers.UnflattenChoices(name="choices")(logits, inputs["token_ids"])
    return keras.Model(inputs, logits, name="multiple_choice")


def replaced_token_detector(encoder):
    """Tells which tokens a generator has replaced: logits (B, T) float32, above 0 for replaced.

    Source: Clark et al. 2020, section 2.
    """
    config = config_of(encoder)
    x = layers.dense(config.hidden_size, config, "detector", None)(encoder.output["sequence_output"])
    x = keras.layers.Activation(ACTIVATION_FUNCTIONS[config.hidden_act], name="detector_act")(x)
    logits = head_layers.Squeeze(name="logits")(_float32_dense(encoder, 1, "detector_logits")(x))
    return keras.Model(encoder.input, logits, name="replaced_token_detector")


def sentence_embedder(encoder, pooling="mean", normalize=True, dense=()):
    """Gives one vector a text, (B, D) float32, of length 1 where `normalize`.

    Args:
        pooling: what becomes of the token vectors, one of `head_layers.POOLINGS`.
        dense: what follows, in order: dicts of the arguments `units`, `activation` and `bias` of `embedder_dense`.

    Source: Reimers and Gurevych 2019, section 3.
    """
    x = head_layers.SentencePooling(pooling, name="pooling")(
        encoder.output["sequence_output"], encoder.get_layer("mask").output
    )
    for i, values in enumerate(dense):
        x = head_layers.embedder_dense(config_of(encoder), f"dense_{i}", **values)(x)
    x = head_layers.UnitLength(name="embedding")(x) if normalize else x
    return keras.Model(encoder.input, x, name="sentence_embedder")


def _masked_logits(encoder, positions):
    x = head_layers.MaskedTransform(config_of(encoder), name="mlm")(encoder.output["sequence_output"], positions)
    logits = encoder.get_layer("token_embedding")(x, reverse=True)  # (B, P, V)
    return head_layers.VocabularyBias(name="mlm_bias")(logits)


def _scorer(encoder, name):
    x = _classifier_input(encoder, encoder.output, name)
    score = head_layers.Squeeze(name="score")(_float32_dense(encoder, 1, "logits")(x))
    return keras.Model(encoder.input, score, name=name)


def _classifier_input(encoder, outputs, head):
    """What a classifier reads, (B, D): `pooled_output`, or its own dense layer on [CLS] where the family has that."""
    config = config_of(encoder)
    if reads_pooler(head, config):
        return _dropout(encoder, "dropout")(_pooled(encoder, head, outputs))
    x = layers.FirstToken(name="classifier_token")(outputs["sequence_output"])
    if config.classifier_act != "relu":  # DistilBERT drops only behind its dense layer
        x = _dropout(encoder, "classifier_dropout")(x)
    x = layers.dense(config.hidden_size, config, "classifier_dense", None)(x)
    activation = CLASSIFIER_FUNCTIONS[config.classifier_act]
    return _dropout(encoder, "dropout")(keras.layers.Activation(activation, name="classifier_act")(x))


def _pooled(encoder, head, outputs=None):
    outputs = encoder.output if outputs is None else outputs
    if "pooled_output" not in outputs:
        raise ValueError(f"`{head}` needs an encoder with a pooler, but its config says `pooler=False`.")
    return outputs["pooled_output"]


def _dropout(encoder, name):
    return Dropout(config_of(encoder).hidden_dropout_prob, name=name)


def _float32_dense(encoder, units, name):
    # float32 logits even under mixed precision: the loss needs the range
    return layers.dense(units, config_of(encoder), name, "float32")


def reads_pooler(head, config):
    """Whether `head` reads `pooled_output` in this family.

    RoBERTa's classifier has a dense layer of its own, but its multiple choice reads the pooler.
    """
    if HEADS[head].pooler is None:
        return False
    own = HEADS[head].pooler == "classifier" and config.classifier_act is not None
    return not own or (head == "multiple_choice" and config.classifier_act == "tanh")


@dataclasses.dataclass(frozen=True)
class Head:
    """What the rest of the package needs to know of a head.

    Args:
        build: (encoder, **options) -> keras.Model.
        answer: how it answers texts, or None.
        pooler: "always" where it reads `pooled_output`; "classifier" where it does so unless the family's classifiers
            have a dense layer of their own; None where it does not.
        labelled: whether it has one output a label (`num_classes`).
        options: the names of further options of `build`, kept in `config.json`.
    """

    build: Callable
    answer: answers.Answer | None = None
    pooler: str | None = None
    labelled: bool = False
    options: tuple[str, ...] = ()


HEADS = {
    "masked_language_model": Head(masked_language_model, answers.WORDS),
    "pretraining_model": Head(pretraining_model, pooler="always"),
    "next_sentence": Head(next_sentence, answers.FOLLOWS, pooler="always"),
    "sequence_classifier": Head(sequence_classifier, answers.CLASSES, "classifier", True, ("multi_label",)),
    "sequence_regressor": Head(sequence_regressor, answers.SCORES, pooler="classifier"),
    "token_classifier": Head(token_classifier, answers.ENTITIES, labelled=True),
    "span_extractor": Head(span_extractor, answers.SPANS),
    "multiple_choice": Head(multiple_choice, answers.CHOICES, pooler="classifier"),
    "sentence_embedder": Head(sentence_embedder, answers.VECTORS, options=("pooling", "normalize", "dense")),
    "reranker": Head(reranker, answers.PAIR_SCORES, pooler="classifier"),
    "replaced_token_detector": Head(replaced_token_detector, answers.REPLACED),
}
