"""From a head's output to its answers, in `keras.ops` for every export, and to what `predict` gives of each text."""

import dataclasses
from collections.abc import Callable

import numpy as np
from keras import ops

from keras_bert import entities, spans
from keras_bert.config import did_you_mean
from keras_bert.head_layers import UnitLength


@dataclasses.dataclass(frozen=True)
class Answer:
    """How a head answers texts.

    Args:
        takes: what it is asked: "texts" (one or two), "pairs" (two), "masks" (one or two with [MASK] in them),
            "choices" (a text and a list of second ones), "documents" (of any length), "contexts" (a question, and a
            context of any length).
        arrays: (model's output, features, bundle, settings) -> dict of arrays under the names that exports give them,
            labels and words as ids.
        rows: (`asking.Asked`, bundle, settings) -> list with what `predict` gives of each text.
        settings: names and defaults of what a user may set for `predict` and exports.
    """

    takes: str
    arrays: Callable
    rows: Callable
    settings: dict = dataclasses.field(default_factory=dict)


# what must hold of a setting, in words, and whether a value does
CHECKS = {
    "top": ("a positive integer", lambda value: type(value) is int and value > 0),
    "max_answer_tokens": ("a positive integer", lambda value: type(value) is int and value > 0),
    "dimensions": ("a positive integer", lambda value: type(value) is int and value > 0),
    "stride": ("an integer of at least 0", lambda value: type(value) is int and value >= 0),
    "null_threshold": ("a number", lambda value: type(value) in (int, float) and value == value),
}


def checked_settings(bundle, head, given):
    """Gives the settings of `head`, a `Head`, with those `given`; None stands for the default.

    Raises:
        ValueError: a setting is unknown or wrong.
    """
    known = head.answer.settings
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"`{bundle.head}` takes no setting `{name}`.{did_you_mean(name, known)}")
        words, holds = CHECKS[name]
        if value is not None and not holds(value):
            raise ValueError(f"`{name}` must be {words}, got {value!r}.")
    settings = known | {name: value for name, value in given.items() if value is not None}
    width = bundle.model.output.shape[-1] if "dimensions" in settings else None
    if width is not None and settings["dimensions"] is not None and settings["dimensions"] > width:
        raise ValueError(f"`dimensions` must be at most the embedding's {width}, got {settings['dimensions']}.")
    return settings


def classes(logits, _, bundle, __):
    """Logits (B, C) -> likeliest `label` (B,) int32; `probabilities` (B, C), with `multi_label` each for itself."""
    probabilities = ops.sigmoid(logits) if bundle.options.get("multi_label") else ops.softmax(logits, axis=-1)
    return {"label": likeliest(logits), "probabilities": probabilities}


def likeliest(logits):
    """Logits (B, C) -> (B,) int32."""
    # top_k, because Keras's argmax compares bits, for which TFLite has no operation
    return ops.cast(ops.squeeze(ops.top_k(logits, 1)[1], -1), "int32")


def class_rows(asked, bundle, _):
    """{"label", "probabilities": {label: probability}}, with several labels "labels", those over 0.5."""
    rows = []
    for label, row in zip(asked.arrays["label"], asked.arrays["probabilities"], strict=True):
        probabilities = dict(zip(bundle.labels, map(float, row), strict=True))
        said = {"label": bundle.labels[label]}
        if bundle.options.get("multi_label"):
            said = {"labels": [name for name, probability in probabilities.items() if probability > 0.5]}
        rows.append(said | {"probabilities": probabilities})
    return rows


def words(logits, features, _, settings):
    """Logits (B, P, V) -> the ids of the likeliest `words` and their `probabilities`, (B, P, K).

    Where the feature "is_mask" (B, P) is 0 they are -1 and 0.
    """
    probabilities, ids = ops.top_k(ops.softmax(logits, axis=-1), min(settings["top"], logits.shape[-1]))
    there = ops.cast(ops.expand_dims(features["is_mask"], 2), "int32")
    ids = (ops.cast(ids, "int32") + 1) * there - 1
    return {"words": ids, "probabilities": probabilities * ops.cast(there, "float32")}


def word_rows(asked, bundle, _):
    """A list with, per [MASK], the likeliest as {"word", "probability"}."""
    vocab = bundle.tokenizer.vocab
    return [
        [
            [{"word": vocab[w], "probability": float(p)} for w, p in zip(*mask, strict=True)]
            for mask in zip(words[is_mask > 0], probabilities[is_mask > 0], strict=True)
        ]
        for words, probabilities, is_mask in zip(
            asked.arrays["words"], asked.arrays["probabilities"], asked.features["is_mask"], strict=True
        )
    ]


def vectors(embedding, _, bundle, settings):
    """Gives the vectors (B, D) their name; their first `dimensions` alone have length 1 again if all had."""
    dimensions = settings["dimensions"]
    if dimensions is not None:
        embedding = embedding[:, :dimensions]
        if bundle.options.get("normalize", True):
            embedding = UnitLength(dtype="float32")(embedding)
    return {"embedding": embedding}


def vector_rows(asked, *_):
    """An array (D,)."""
    return list(asked.arrays["embedding"])


def scores(score, *_):
    """Gives the scores (B,) their name."""
    return {"score": score}


def score_rows(asked, *_):
    """A float."""
    return [float(score) for score in asked.arrays["score"]]


def follows(logits, *_):
    """Logits (B, 2) -> `probabilities` (B, 2), that the second text follows and that it does not."""
    return {"probabilities": ops.softmax(logits, axis=-1)}


def follows_rows(asked, *_):
    """The probability that the second text follows, a float."""
    return [float(probability) for probability in asked.arrays["probabilities"][:, 0]]


def replaced(logits, features, *_):
    """Logits (B, T) -> `probabilities` (B, T) of having been replaced, 0 at padding."""
    return {"probabilities": ops.sigmoid(logits) * ops.cast(features["padding_mask"], "float32")}


def replaced_rows(asked, bundle, _):
    """{"tokens", "probabilities"}, with [CLS] and [SEP]; without a tokenizer no tokens."""
    rows = []
    columns = (asked.features["token_ids"], asked.features["padding_mask"], asked.arrays["probabilities"])
    for ids, mask, probabilities in zip(*columns, strict=True):
        row = {"probabilities": probabilities[mask > 0].tolist()}
        if bundle.tokenizer is not None:
            row = {"tokens": [bundle.tokenizer.vocab[i] for i in ids[mask > 0]]} | row
        rows.append(row)
    return rows


def choices(logits, *_):
    """Logits (B, N) -> `choice` (B,) int32, `probabilities` (B, N)."""
    return {"choice": likeliest(logits), "probabilities": ops.softmax(logits, axis=-1)}


def choice_rows(asked, *_):
    """{"choice": its place, "probabilities": list}."""
    return [
        {"choice": int(choice), "probabilities": probabilities.tolist()}
        for choice, probabilities in zip(asked.arrays["choice"], asked.arrays["probabilities"], strict=True)
    ]


def entities_of(logits, features, bundle, _):
    """`entities.entities` of documents: logits (B, N, C); features (B, N) by the names below."""
    places = (features[name] for name in ("word_ids", "offset_starts", "offset_ends"))
    return entities.entities(logits, *places, entities.scheme_of(bundle.labels))


def entity_rows(asked, bundle, _):
    """{"entities": dicts, "words", "labels"}; a word without a token is labelled O."""
    found = entities.entity_rows(asked.arrays, entities.scheme_of(bundle.labels).names, asked.written)
    labelled, _ = entities.labels_of_tokens(asked.outputs)
    labelled, numbers = np.asarray(labelled), asked.features["word_ids"]
    rows = []
    for i, (row, words_) in enumerate(zip(found, asked.words, strict=True)):
        labels = ["O"] * len(words_)
        for word, label in zip(numbers[i][::-1], labelled[i][::-1], strict=True):  # the first token's stays
            if word >= 0:
                labels[word] = bundle.labels[label]
        rows.append({"entities": row, "words": words_, "labels": labels})
    return rows


def spans_of(logits, features, _, settings):
    """`spans.best_spans` of windows: logits (W, T, 2); features (W, T) by the names below."""
    places = (features[name] for name in ("inside", "offset_starts", "offset_ends"))
    return spans.best_spans(logits, *places, settings["max_answer_tokens"], settings["top"])


def span_rows(asked, _, settings):
    """{"answer", "start", "end", "score", "null_score"}, and "others" where more than one is asked for."""
    return spans.span_rows(asked.arrays, asked.pairs, settings["null_threshold"])


CLASSES = Answer("texts", classes, class_rows, {"stride": None})
SCORES = Answer("texts", scores, score_rows)
PAIR_SCORES = Answer("pairs", scores, score_rows)
FOLLOWS = Answer("pairs", follows, follows_rows)
VECTORS = Answer("texts", vectors, vector_rows, {"dimensions": None})
WORDS = Answer("masks", words, word_rows, {"top": 5})
REPLACED = Answer("texts", replaced, replaced_rows)
CHOICES = Answer("choices", choices, choice_rows)
ENTITIES = Answer("documents", entities_of, entity_rows, {"stride": None})
SPANS = Answer(
    "contexts", spans_of, span_rows, {"stride": None, "max_answer_tokens": 30, "null_threshold": 0.0, "top": 1}
)
