"""Labelled files into texts and labels: TSV, CSV and JSONL, one text an example or a pair."""

import csv
import dataclasses
import json
import math
from pathlib import Path

import numpy as np

from keras_bert.config import did_you_mean
from keras_bert.training.corpus import read_lines

SUFFIXES = (".tsv", ".csv", ".jsonl")

# What columns are called where nobody says: the first couple that a header holds whole, else the first single name.
COUPLES = (
    ("text", "pair"),
    ("text", "text_pair"),
    ("text_a", "text_b"),
    ("text1", "text2"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("query", "passage"),
    ("query", "document"),
    ("#1 string", "#2 string"),
)
TEXTS = ("text", "sentence", "text_a", "review", "content", "question", "title")
LABELS = ("label", "gold_label", "class", "category", "sentiment", "intent", "quality", "score")


@dataclasses.dataclass(frozen=True)
class Examples:
    """The examples of a file, in its order.

    Args:
        path: the file, for messages.
        texts: list of str.
        pairs: list of str, the second texts, or None.
        labels: list of str, or None where they were not asked for; several of one example are parted by "|".
        lines: list of int, where each example begins in the file; the first line is 1.
    """

    path: Path
    texts: list[str]
    pairs: list[str] | None
    labels: list[str] | None
    lines: list[int]

    def __len__(self):
        return len(self.texts)


def read_examples(path, text="", pair="", label="", labelled=True, may_lack_label=False):
    """Reads a labelled file.

    Columns are named by the header (TSV, CSV) or are the keys of the objects (JSONL). A name that is not given is
    guessed from `COUPLES`, `TEXTS` and `LABELS`, in any case; where `text` is given, the pair is not guessed. Names
    that are numbers ("4", counted from 1) say that the file has no header. TSV has no quoting, as in GLUE: a quotation
    mark is a letter. CSV has the usual quoting, and a text may hold line ends.

    Args:
        path: ends in .tsv, .csv or .jsonl; UTF-8, with or without a BOM.
        text, pair, label: names of columns, "" for the usual ones.
        labelled: whether there must be labels.
        may_lack_label: whether an example's label may be empty, as where it can have several.

    Returns:
        `Examples`; labels are strings, also where JSON has numbers, or lists of strings.

    Raises:
        ValueError: the file or a column is missing, or a row is not as it should be; the message names the line.
    """
    path, rows = Path(path), read_rows(path, all_numbers(text, pair, label))
    columns, lines, cells_of, kinds = None, [], [], {}
    for line, row in rows:
        columns = columns or _columns(path, list(row), text, pair, label, labelled)
        lines.append(line)
        cells = [_cell(path, line, row, column) for column in columns[:2]]
        if columns[2] is not None:
            cells.append(_label(path, line, row, columns[2], may_lack_label))
            if type(row[columns[2]]) in (int, float):
                kinds.setdefault("number", line)
            elif not _is_number(cells[2]):
                kinds.setdefault("string", line)
        cells_of.append(cells)
    if len(kinds) == 2:
        raise ValueError(
            f"The labels of {path} must be all strings or all numbers, got a string in line {kinds['string']} and a "
            f"number in line {kinds['number']}."
        )
    if not cells_of:
        raise ValueError(f"{path} must hold at least one example, got none.")
    texts, pairs, labels = ([row[i] for row in cells_of] if columns[i] is not None else None for i in range(3))
    return Examples(path, texts, pairs, labels, lines)


def read_rows(path, numbered=False):
    """Yields (line, dict from column to cell) of a .tsv, .csv or .jsonl file.

    Args:
        numbered: whether there is no header, and columns are called "1", "2", ...
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path} must end in .tsv, .csv or .jsonl, got {path.suffix or 'no ending'}.")
    if not path.is_file():
        raise ValueError(f"{path} is missing.")
    yield from _objects(path) if path.suffix == ".jsonl" else _rows(path, numbered)


def label_names(examples):
    """Gives the labels of the examples, each once: by number where all are numbers, else by letter.

    Raises:
        ValueError: there is only one.
    """
    names = sorted(set(examples.labels))
    if len(names) < 2:
        raise ValueError(f"{examples.path} must hold at least two different labels, got only `{names[0]}`.")
    return sorted(names, key=int) if all(name.isdecimal() for name in names) else names


def label_ids(examples, labels):
    """Gives the place in `labels` of each example's label, a list of int.

    Raises:
        ValueError: a label is not among them; the message names the line.
    """
    ids = {label: i for i, label in enumerate(labels)}
    for line, label in zip(examples.lines, examples.labels, strict=True):
        if label not in ids:
            raise ValueError(_unknown(examples.path, line, label, labels))
    return [ids[label] for label in examples.labels]


def _unknown(path, line, label, labels):
    known = "" if len(labels) > 12 else f" Known: {', '.join(labels)}."
    return f"{path} line {line} has the unknown label `{label}`.{did_you_mean(label, labels)}{known}"


def label_sets(examples, labels=None):
    """Gives the labels of examples that may have several: their names in order, and (n, C) of 0 and 1.

    Args:
        labels: the names, if they are known already.

    Raises:
        ValueError: a label is unknown, or none is there.
    """
    parts = [[name.strip() for name in text.split("|") if name.strip()] for text in examples.labels]
    names = labels or sorted({name for names in parts for name in names})
    if len(names) < 2:
        raise ValueError(f"{examples.path} must hold at least two different labels, got {names}.")
    places = {name: i for i, name in enumerate(names)}
    values = np.zeros((len(parts), len(names)), "float32")
    for row, (line, found) in zip(values, zip(examples.lines, parts, strict=True), strict=True):
        for name in found:
            if name not in places:
                raise ValueError(_unknown(examples.path, line, name, names))
            row[places[name]] = 1.0
    return names, values


def label_numbers(examples):
    """Gives each example's label as a number, (n,) float32.

    Raises:
        ValueError: a label is not a finite number; the message names the line.
    """
    values = np.zeros(len(examples), "float32")
    for i, (line, text) in enumerate(zip(examples.lines, examples.labels, strict=True)):
        if not _is_number(text):
            raise ValueError(f"{examples.path} line {line}: the label must be a finite number, got `{text}`.")
        values[i] = float(text)
    return values


def chosen(examples, indices):
    """The examples of these numbers, in this order."""
    columns = {
        name: values and [values[i] for i in indices] for name, values in vars(examples).items() if name != "path"
    }
    return Examples(examples.path, **columns)


def all_numbers(*names):
    """Tells whether the names that are given are all numbers of columns."""
    given = [name for name in names if name]
    return bool(given) and all(name.isdecimal() for name in given)


def _rows(path, numbered):
    """Yields the line and a dict from column to cell, for each row of a TSV or CSV file."""
    rows = _csv(path) if path.suffix == ".csv" else ((i, line.split("\t")) for i, line in _lines(path))
    header = None
    for line, cells in rows:
        if header is None:
            header = [str(i) for i in range(1, len(cells) + 1)] if numbered else cells
            if len(set(header)) < len(header):
                raise ValueError(f"{path} names a column twice: {', '.join(header)}.")
            if not numbered:
                continue
        if len(cells) != len(header):
            raise ValueError(f"{path} line {line} must have {len(header)} columns as line 1 has, got {len(cells)}.")
        yield line, dict(zip(header, cells, strict=True))


def _csv(path):
    reader = csv.reader((line + "\n" for line in read_lines(path)), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(f"{path} line {line} is not CSV: {error}.") from None
        if cells:
            yield line, cells


def _objects(path):
    """Yields the line and the dict, for each line of a JSONL file."""
    for number, line in _lines(path):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} line {number} is not JSON: {error.msg} at column {error.colno}.") from None
        if not isinstance(row, dict):
            raise ValueError(f"{path} line {number} must be a JSON object, got {type(row).__name__}.")
        yield number, row


def _lines(path):
    return ((number, line) for number, line in enumerate(read_lines(path), start=1) if line)


def _columns(path, header, text, pair, label, labelled):
    """Gives the columns of text, pair and label; None for a pair or a label that there is not."""
    by_name = {name.strip().lower(): name for name in reversed(header)}

    def named(name):
        if name not in header:
            raise ValueError(f"{path} has no column `{name}`.{did_you_mean(name, header)} {_listed(header)}")
        return name

    def guessed(kind, names):
        for name in names:
            if name in by_name:
                return by_name[name]
        raise ValueError(
            f"{path} has no column for the {kind} that is known by its name. {_listed(header)} Say which one it is; "
            "numbers, counted from 1, where there is no header."
        )

    if text:
        first, second = named(text), named(pair) if pair else None
    else:
        couple = next((couple for couple in COUPLES if set(couple) <= by_name.keys()), None)
        first, second = (by_name[name] for name in couple) if couple else (guessed("text", TEXTS), None)
        second = named(pair) if pair else second
    if not labelled:
        return first, second, None
    return first, second, named(label) if label else guessed("label", LABELS)


def _listed(header):
    cells = [cell if len(cell) <= 20 else cell[:17] + "..." for cell in header[:8]]
    return f"Line 1 has: {', '.join(f'`{cell}`' for cell in cells)}{', ...' if len(header) > 8 else ''}."


def _cell(path, line, row, column):
    if column is None:
        return None
    value = _value(path, line, row, column)
    if not isinstance(value, str):
        raise ValueError(f"{path} line {line}: `{column}` must be a string, got {json.dumps(value)[:40]}.")
    return _checked_text(path, line, column, value)


def _label(path, line, row, column, may_be_empty):
    value = _value(path, line, row, column)
    if isinstance(value, list) and all(isinstance(item, str) and "|" not in item for item in value):
        value = "|".join(value)
    if type(value) in (int, float):
        value = repr(value)
    if not isinstance(value, str):
        raise ValueError(
            f"{path} line {line}: `{column}` must be a string, a number or a list of strings without |, got "
            f"{json.dumps(value)[:40]}."
        )
    if not value.strip() and not may_be_empty:
        raise ValueError(f"{path} line {line}: `{column}` must be a label, got an empty one.")
    return _checked_text(path, line, column, value).strip()


def _is_number(text):
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _value(path, line, row, column):
    if column not in row:
        raise ValueError(f"{path} line {line} has no `{column}`.")
    return row[column]


def _checked_text(path, line, column, value):
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError(f"{path} line {line}: `{column}` must be Unicode text, got half of a surrogate pair.")
    return value
