"""From a head's output to its answers, in `keras.ops` for every export, and to the rows that `predict` gives."""

import numpy as np
from keras import ops


def classes(logits):
    """Logits (B, C) -> `label` (B,) int32, `probabilities` (B, C)."""
    # top_k, because Keras's argmax compares bits, for which TFLite has no operation
    label = ops.squeeze(ops.top_k(logits, 1)[1], -1)
    return {"label": ops.cast(label, "int32"), "probabilities": ops.softmax(logits, axis=-1)}


def class_rows(answers, labels):
    """Per text {"label", "probabilities": {label: probability}}."""
    return [
        {"label": labels[label], "probabilities": dict(zip(labels, map(float, probabilities), strict=True))}
        for label, probabilities in zip(answers["label"], answers["probabilities"], strict=True)
    ]


TOP_WORDS = 5


def words(logits):
    """Logits (B, P, V) -> the ids of the likeliest `words` and their `probabilities`, (B, P, K)."""
    probabilities, ids = ops.top_k(ops.softmax(logits, axis=-1), min(TOP_WORDS, logits.shape[-1]))
    return {"words": ops.cast(ids, "int32"), "probabilities": probabilities}


def word_rows(answers, vocab):
    """Per text a list with, per [MASK], the likeliest as {"word", "probability"}."""
    return [
        [
            [{"word": vocab[w], "probability": float(p)} for w, p in zip(*mask, strict=True)]
            for mask in zip(words, probabilities, strict=True)
        ]
        for words, probabilities in zip(answers["words"], answers["probabilities"], strict=True)
    ]


def vectors(embedding):
    """Gives the vectors (B, D) their name."""
    return {"embedding": embedding}


def vector_rows(answers, _):
    """One array (n, D)."""
    return np.stack(answers["embedding"])


def scores(score):
    """Gives the scores (B,) their name."""
    return {"score": score}


def score_rows(answers, _):
    """Per text a float."""
    return [float(score) for score in answers["score"]]
