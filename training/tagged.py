"""Files of tagged words in columns, as CoNLL's: a word a line, a blank line between sentences."""

import dataclasses
import re
from pathlib import Path

from keras_bert.config import did_you_mean
from keras_bert.tags import is_tag, tag_spans
from keras_bert.training.corpus import read_lines

DOCUMENT_START = "-DOCSTART-"


@dataclasses.dataclass(frozen=True)
class Tagged:
    """The sentences of a file, in its order.

    Args:
        path: the file, for messages.
        words: list of lists of str.
        labels: as many, of one label a word: entities as BIO tags, whatever the file has; others as they are.
        lines: list of int, where each sentence begins in the file; the first line is 1.
    """

    path: Path
    words: list[list[str]]
    labels: list[list[str]]
    lines: list[int]

    def __len__(self):
        return len(self.words)


def read_tagged(path):
    """Reads words from the first column and labels from the last; tabs or blanks part columns.

    Tags of entities may be IOB1, BIO, BMES, BIOES or BILOU, and are given as BIO, so that files in different schemes
    go together. Lines that begin with -DOCSTART- are left out.

    Raises:
        ValueError: the file is missing or empty, or a line has no label; the message names the line.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} is missing.")
    words, labels, lines, open_ = [], [], [], False
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip(" \t\r") or line.startswith(DOCUMENT_START):
            open_ = False
            continue
        cells = line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))
        if len(cells) < 2 or not cells[-1].strip():
            raise ValueError(f"{path} line {number} must have a word and a label, got `{line[:40]}`.")
        if not open_:
            words.append([])
            labels.append([])
            lines.append(number)
        words[-1].append(cells[0])
        labels[-1].append(cells[-1].strip())
        open_ = True
    if not words:
        raise ValueError(f"{path} must hold at least one sentence, got none.")
    if all(is_tag(label) for found in labels for label in found):
        labels = [bio_tags(tag_spans(found), len(found)) for found in labels]
    return Tagged(path, words, labels, lines)


def bio_tags(spans, count):
    """The tags of `count` words in BIO, from (start, end, type)."""
    tags = ["O"] * count
    for start, end, kind in spans:
        tags[start:end] = [f"B-{kind}"] + [f"I-{kind}"] * (end - start - 1)
    return tags


def tag_names(tagged):
    """The labels of a file, each once: O, then B and I of each type by letter; others by letter.

    Raises:
        ValueError: there is only one.
    """
    names = {label for labels in tagged.labels for label in labels}
    if len(names) < 2:
        raise ValueError(f"{tagged.path} must hold at least two different labels, got only `{min(names)}`.")
    if not all(map(is_tag, names)):
        return sorted(names)
    kinds = sorted({name.partition("-")[2] for name in names - {"O"}})
    return ["O", *(f"{place}-{kind}" for kind in kinds for place in "BI")]


def check_labels(tagged, names):
    """Refuses labels that are not among `names`; the message names the sentence's line."""
    known = set(names)
    for line, labels in zip(tagged.lines, tagged.labels, strict=True):
        for place, label in enumerate(labels):
            if label not in known:
                raise ValueError(
                    f"{tagged.path} line {line + place} has the unknown label `{label}`.{did_you_mean(label, names)}"
                )
