"""Files of texts that belong together: pairs, triplets with wrong texts, and pairs with a score."""

import dataclasses
import json
from pathlib import Path

from keras_bert.training.examples import COUPLES, LABELS, label_numbers, read_examples, read_rows

ANCHORS, POSITIVES = ("anchor", "query", "question", "text1"), ("positive", "passage", "answer", "document", "text2")
NEGATIVES = ("negatives", "negative", "hard_negatives", "hard_negative")
SCORES = ("score", "similarity", *LABELS)


@dataclasses.dataclass(frozen=True)
class TextGroups:
    """Groups of N texts that belong together: an anchor, its own text, and texts that are like it but wrong.

    Args:
        path: the file, for messages.
        groups: list of lists of N str.
        scores: list of float, how alike the two texts of a group are, or None.
    """

    path: Path
    groups: list[list[str]]
    scores: list[float] | None

    def __len__(self):
        return len(self.groups)


def read_groups(path, anchor="", positive="", score=""):
    """Reads pairs; with a column of negatives (a text, in JSON also a list) triplets; with one of scores, scored pairs.

    Args:
        path: ends in .tsv, .csv or .jsonl.
        anchor, positive, score: names or numbers of columns; "" for the usual names.

    Raises:
        ValueError: a column is missing, a group has another number of texts than the first, or a score is no number.
    """
    first = next(iter(read_rows(path, anchor.isdecimal())), None)
    names = {name.strip().lower() for name in (first[1] if first else {})}
    if not names & set(NEGATIVES):
        if not any(set(couple) <= names for couple in COUPLES):  # which are found by themselves
            anchor, positive = anchor or _usual(names, ANCHORS), positive or _usual(names, POSITIVES)
        scored = score or next((name for name in SCORES if name in names), "")
        both = (anchor, positive) if anchor and positive else ("", "")
        examples = read_examples(path, *both, scored, labelled=bool(scored))
        if examples.pairs is None:
            raise ValueError(f"{path} must have two columns of texts, got one.")
        groups = [list(pair) for pair in zip(examples.texts, examples.pairs, strict=True)]
        return TextGroups(Path(path), groups, label_numbers(examples).tolist() if scored else None)
    groups = []
    for line, row in read_rows(path):
        cells = {name.strip().lower(): value for name, value in row.items()}
        group = [cells.get(anchor or _usual(cells, ANCHORS)), cells.get(positive or _usual(cells, POSITIVES))]
        for name in NEGATIVES:
            wrong = cells.get(name, [])
            group += wrong if isinstance(wrong, list) else [wrong]
        if not all(isinstance(text, str) for text in group):
            raise ValueError(
                f"{path} line {line} must have an anchor, a positive and negatives, got {json.dumps(row)[:80]}."
            )
        if groups and len(group) != len(groups[0]):
            raise ValueError(
                f"{path} line {line} must have {len(groups[0])} texts as the first line has, got {len(group)}."
            )
        groups.append(group)
    return TextGroups(Path(path), groups, None)


def _usual(names, known):
    """The first of the known names that a file has, or ""."""
    return next((name for name in known if name in names), "")
