"""Entities from the labels of tokens, as tags.py reads them from tags, but in `keras.ops` for every export."""

import dataclasses

import numpy as np
from keras import ops

from keras_bert.tags import is_tag, split_tag
from keras_bert.tokenization.gathering import closed_up, take

_KINDS = "OBIES"
_OUTSIDE, _BEGIN, _INSIDE, _END, _SINGLE = range(5)


@dataclasses.dataclass(frozen=True)
class Scheme:
    """What each of C classes says of a word.

    Args:
        kinds: (C,) int32, no entity, or its begin, inside, end, or all of it.
        types: (C,) int32, places in `names`; 0 where there is no entity.
        names: of the entities' types, in the order of the labels.
    """

    kinds: np.ndarray
    types: np.ndarray
    names: tuple[str, ...]


def scheme_of(labels):
    """Reads a `Scheme` off the labels: tags as `split_tag` reads them, or else types, O for none.

    Where a label is no tag, each is a type, and equal neighbours are one entity.
    """
    if all(map(is_tag, labels)):
        read = [split_tag(label) for label in labels]
    else:
        read = [("O", "") if label == "O" else ("I", label) for label in labels]
    names = list(dict.fromkeys(name for place, name in read if place != "O"))
    kinds = [_KINDS.index(place) for place, _ in read]
    types = [0 if place == "O" else names.index(name) for place, name in read]
    return Scheme(np.array(kinds, "int32"), np.array(types, "int32"), tuple(names))


def labels_of_tokens(logits):
    """Logits (B, N, C) -> class (B, N) int32, and its probability (B, N)."""
    probabilities, classes = ops.top_k(ops.softmax(logits, axis=-1), 1)
    return ops.cast(ops.squeeze(classes, -1), "int32"), ops.squeeze(probabilities, -1)


def entities(logits, words, starts, ends, scheme):
    """Decodes entities; a word has the label of its first token.

    An entity goes on where a word is inside or end, of the type of the word before, which was begin or inside; what is
    inside or end and goes on with nothing begins one, as seqeval reads labels.

    Args:
        logits: (B, N, C) of tokens; words: (B, N) int32, number of the token's word, -1 at what is none.
        starts, ends: (B, N) int32, places of the tokens in the text.

    Returns:
        `entity_start`, `entity_end`, `entity_label` (B, N) int32, place in `scheme.names`, all -1 behind the last one;
        `entity_score` (B, N), mean probability of the words' labels, there 0.
    """
    rows, size = ops.shape(words)
    classes, probabilities = labels_of_tokens(logits)
    first = (words >= 0) & (words != shifted(words, -1))
    last = (words >= 0) & (words != shifted(words, -1, back=True))

    def by_word(kept, values):
        return closed_up(kept, values, size)

    # words, side by side
    number, start, end = by_word(first, words + 1), by_word(first, starts), by_word(last, ends)
    kind, type_ = take(scheme.kinds, by_word(first, classes)), take(scheme.types, by_word(first, classes))
    kind = ops.where(number > 0, kind, _OUTSIDE)  # behind the last word
    before = shifted(kind, _OUTSIDE)
    goes_on = ((kind == _INSIDE) | (kind == _END)) & ((before == _BEGIN) | (before == _INSIDE))
    goes_on = goes_on & (type_ == shifted(type_, 0)) & (number == shifted(number, -1) + 1)
    named = kind != _OUTSIDE
    begins = named & ops.logical_not(goes_on)
    stops = named & ops.logical_not(shifted(goes_on, False, back=True))
    # entities, side by side
    index = ops.maximum(ops.cumsum(ops.cast(begins, "int32"), axis=1) - 1, 0)
    index = ops.reshape(index + ops.expand_dims(ops.arange(rows) * size, 1), (-1,))
    weight = ops.cast(named, "float32")
    score = ops.cast(by_word(first, probabilities), "float32") * weight
    score, count = (
        ops.reshape(ops.segment_sum(ops.reshape(x, (-1,)), index, rows * size), (rows, size)) for x in (score, weight)
    )
    return {
        "entity_start": by_word(begins, start + 1) - 1,
        "entity_end": by_word(stops, end + 1) - 1,
        "entity_label": by_word(begins, type_ + 1) - 1,
        "entity_score": score / ops.maximum(count, 1.0),
    }


def shifted(values, edge, back=False):
    """Gives each of (B, N) its left neighbour's value, or with `back` its right one's; `edge` where there is none."""
    filler = ops.full_like(values[:, :1], edge)
    return ops.concatenate([values[:, 1:], filler] if back else [filler, values[:, :-1]], axis=1)


def entity_rows(answers, names, texts):
    """Per text a list of {"start", "end", "label", "score", "text"}."""
    columns = [answers[f"entity_{name}"].tolist() for name in ("start", "end", "label", "score")]
    rows = []
    for text, *row in zip(texts, *columns, strict=True):
        found = [values for values in zip(*row, strict=True) if values[0] >= 0]
        rows.append(
            [
                {"start": start, "end": end, "label": names[label], "score": score, "text": text[start:end]}
                for start, end, label, score in found
            ]
        )
    return rows
