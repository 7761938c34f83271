"""Entities in `keras.ops` against the plain loop of tags.py."""

import numpy as np
import pytest
from keras import ops

from keras_bert.entities import entities, scheme_of
from keras_bert.tags import tag_spans

SCHEMES = {
    "iob2": ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"],
    "iobes": ["E-PER", "O", "B-PER", "I-PER", "S-PER", "S-LOC"],
    "bmes": ["B", "M", "E", "S"],
    "bilou": ["O", "B-X", "I-X", "L-X", "U-X", "B-Y", "L-Y"],
}


def random_words(rng, count, width, classes):
    """Words of one to three tokens, special tokens round them: word_ids, starts, ends, and a class a word."""
    words, starts, ends = np.full((3, count, width), -1)
    chosen = []
    for row in range(count):
        place, text, number = 1, 0, 0
        labels = []
        while place < width - 3 and rng.random() < 0.95:
            for _ in range(rng.integers(1, 4)):
                words[row, place], starts[row, place], ends[row, place] = number, text, text + 2
                place, text = place + 1, text + 2
            text, number = text + 1, number + 1
            labels.append(int(rng.integers(classes)))
        chosen.append(labels)
    return words, starts, ends, chosen


def decoded(words, starts, ends, logits, scheme):
    arrays = (np.asarray(x, "int32") for x in (words, starts, ends))
    found = entities(ops.convert_to_tensor(logits), *map(ops.convert_to_tensor, arrays), scheme)
    return {name: ops.convert_to_numpy(value) for name, value in found.items()}


@pytest.mark.parametrize("name", SCHEMES)
def test_entities_are_those_of_a_plain_loop(name):
    labels, rng = SCHEMES[name], np.random.default_rng(0)
    scheme = scheme_of(labels)
    words, starts, ends, chosen = random_words(rng, 60, 23, len(labels))
    logits = rng.normal(size=(*words.shape, len(labels))).astype("float32")  # later tokens of a word say something else
    probabilities = np.zeros((60, 23))
    for row, classes in enumerate(chosen):
        for number, label in enumerate(classes):
            first = np.flatnonzero(words[row] == number)[0]
            logits[row, first, label] += 9
            weights = np.exp(logits[row, first].astype("float64"))
            probabilities[row, number] = weights[label] / weights.sum()
    found = decoded(words, starts, ends, logits, scheme)
    several = 0
    for row, classes in enumerate(chosen):
        spans = tag_spans([labels[label] for label in classes])
        several += any(end - start > 1 for start, end, _ in spans)
        got = found["entity_start"][row] >= 0
        assert got.tolist() == [i < len(spans) for i in range(23)]
        for i, (start, end, kind) in enumerate(spans):
            at = [np.flatnonzero(words[row] == number) for number in (start, end - 1)]
            assert found["entity_start"][row, i] == starts[row, at[0][0]]
            assert found["entity_end"][row, i] == ends[row, at[1][-1]]
            assert scheme.names[found["entity_label"][row, i]] == kind
            assert abs(found["entity_score"][row, i] - probabilities[row, start:end].mean()) < 1e-6  # measured 1e-7
        rest = [found[f"entity_{name}"][row, len(spans) :] for name in ("start", "end", "label")]
        assert not (np.array(rest) + 1).any()
        assert not found["entity_score"][row, len(spans) :].any()
    assert several > 20


def test_plain_labels_join_equal_neighbours():
    scheme = scheme_of(["O", "LOC", "PER"])
    logits = np.eye(3, dtype="float32")[[[1, 1, 0, 2, 1, 1]]] * 9
    places = np.arange(6)[None]
    found = decoded(places, places * 2, places * 2 + 1, logits, scheme)
    spans = zip(found["entity_start"][0], found["entity_end"][0], found["entity_label"][0], strict=True)
    assert [(start, end, scheme.names[label]) for start, end, label in spans if start >= 0] == [
        (0, 3, "LOC"),
        (6, 7, "PER"),
        (8, 11, "LOC"),
    ]


def test_a_missing_word_ends_an_entity():
    """A word without a token is labelled O, and the entity before it ends there."""
    scheme = scheme_of(["O", "B-X", "I-X"])
    logits = np.eye(3, dtype="float32")[[[1, 2, 2]]]
    places = np.arange(3)[None]
    whole = decoded(places, places, places + 1, logits, scheme)
    parted = decoded(np.array([[0, 1, 3]]), places, places + 1, logits, scheme)
    assert whole["entity_end"].tolist() == [[3, -1, -1]]
    assert parted["entity_end"].tolist() == [[2, 3, -1]]
