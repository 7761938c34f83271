"""Precision, recall and F1 of entities, in all and by type."""

import collections

from keras_bert.tags import is_tag, tag_spans
from keras_bert.training.metrics.classification import f1_of


def entity_metrics(right, answers):
    """Scores tags by the entities that they stand for: one is right if its words and its type are.

    Args:
        right, answers: lists of one list of tags (str) a text; of any scheme that `keras_bert.tags` reads.

    Returns:
        dict: "examples" (texts), "words", "accuracy" (of words), "precision", "recall", "f1" of entities, "macro_f1"
        (the mean over types), and "types": per type "entities", "answered", "right", "precision", "recall", "f1". Where
        labels are not tags of entities, such as parts of speech, only the first three.

    Raises:
        ValueError: a text has more or fewer answers than words.
    """
    counts = collections.defaultdict(lambda: [0, 0, 0])  # right, answered, true
    words = hits = 0
    entities = all(is_tag(tag) for tags in right for tag in tags)
    for i, (true, given) in enumerate(zip(right, answers, strict=True)):
        if len(true) != len(given):
            raise ValueError(f"Text {i} must have {len(true)} tags, one a word, got {len(given)}.")
        words += len(true)
        hits += sum(x == y for x, y in zip(true, given, strict=True))
        if not entities:
            continue
        true_spans, given_spans = set(tag_spans(true)), set(tag_spans(given))
        for position, spans in enumerate((true_spans & given_spans, given_spans, true_spans)):
            for *_, kind in spans:
                counts[kind][position] += 1
    scores = {"examples": len(right), "words": words, "accuracy": round(hits / words, 4) if words else 0.0}
    if not entities:
        return scores
    types = {}
    for kind, (both, answered, true) in sorted(counts.items()):
        precision, recall, f1 = (round(value, 4) for value in f1_of(both, answered, true))
        counted = {"entities": true, "answered": answered, "right": both}
        types[kind] = counted | {"precision": precision, "recall": recall, "f1": f1}
    totals = [sum(column) for column in zip(*counts.values(), strict=True)] or [0, 0, 0]
    precision, recall, f1 = (round(value, 4) for value in f1_of(*totals))
    macro = sum(f1_of(*count)[2] for count in counts.values()) / len(counts) if counts else 0.0
    overall = {"precision": precision, "recall": recall, "f1": f1, "macro_f1": round(macro, 4)}
    return scores | overall | {"types": types}
