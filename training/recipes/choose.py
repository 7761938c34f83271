"""Recipe: a pretrained model and texts with choices in, a chooser out."""

import dataclasses
import re
import time
from pathlib import Path

import keras
import numpy as np

from keras_bert.training.batches import predict_rows, steps_per_epoch, tokenize_examples, training_batches
from keras_bert.training.examples import read_rows
from keras_bert.training.fine_tuning import check_settings, finish, fit, load_for, read_splits, row_length
from keras_bert.training.losses import masked_cross_entropy
from keras_bert.training.metrics import wilson_interval
from keras_bert.training.report import Evaluation

USUAL_LENGTH = 128
TEXTS = ("text", "question", "context", "sent1", "startphrase", "premise")
CHOICES = ("choices", "endings", "options")
NUMBERED = re.compile(r"(?:choice|ending|option)_?(\d+)", re.IGNORECASE)
LABELS = ("label", "answer", "gold_label")


@dataclasses.dataclass(frozen=True)
class Choose:
    """What to fine-tune on and how; fields that are not named here are those of `fine_tuning`.

    Args:
        train, dev, test: .jsonl, .csv or .tsv, as `read_choices` reads them.
        batch_size: texts of a step; each of their choices is a row.
    """

    model: str
    train: str
    out: str
    dev: str = ""
    test: str = ""
    max_length: int = 0
    batch_size: int = 16
    epochs: int = 3
    learning_rate: float = 5e-5
    lora_rank: int = 0
    patience: int = 0
    seed: int = 0

    def __post_init__(self):
        check_settings(self)


@dataclasses.dataclass(frozen=True)
class Choices:
    """Texts with N choices each; `right` has the place of the right one. `path` and `lines` are for messages."""

    path: Path
    texts: list[str]
    choices: list[list[str]]
    right: list[int]
    lines: list[int]


def read_choices(path):
    """Reads texts, their choices and the right one's place, from 0, or its text.

    JSONL has "text" and a list "choices"; tables have `choice0`, `choice1`, ... The names of SWAG and other sets are
    known too. A second column `sent2` is put before each choice, as SWAG has it.

    Raises:
        ValueError: something is missing, or a text has another number of choices than the first.
    """
    found = Choices(Path(path), [], [], [], [])
    for line, row in read_rows(path):
        place = f"{path} line {line}"
        text = row.get(next((name for name in TEXTS if name in row), None))
        choices = row.get(next((name for name in CHOICES if name in row), None))
        if choices is None:
            numbered = sorted((int(match[1]), name) for name in row if (match := NUMBERED.fullmatch(name)))
            choices = [row[name] for _, name in numbered]
        if not isinstance(text, str) or not isinstance(choices, list) or not all(isinstance(c, str) for c in choices):
            raise ValueError(f"{place} must have a text ({', '.join(TEXTS)}) and choices ({', '.join(CHOICES)}).")
        if len(choices) < 2 or (found.choices and len(choices) != len(found.choices[0])):
            wanted = len(found.choices[0]) if found.choices else "at least 2"
            raise ValueError(f"{place} must have {wanted} choices, got {len(choices)}.")
        label = row.get(next((name for name in LABELS if name in row), None))
        right = choices.index(label) if label in choices else label
        if not str(right).isdecimal() or int(right) >= len(choices):
            raise ValueError(f"{place} must have a label from 0 to {len(choices) - 1}, or a choice, got {label!r}.")
        found.texts.append(text)
        found.choices.append([f"{row['sent2']} {choice}" if row.get("sent2") else choice for choice in choices])
        found.right.append(int(right))
        found.lines.append(line)
    if not found.texts:
        raise ValueError(f"{path} must hold at least one example, got none.")
    return found


def run(config):
    """Trains, keeps the best weights, scores them, and writes the model and its metrics.

    Returns:
        dict, as in `metrics.json`: "dev" and "test", "accuracy" with its interval, and "loss"; "epochs", the logs of
        each; "kept_epoch", counted from 1; "truncated", how many training rows were cut; "seconds".
    """
    started = time.monotonic()
    files = read_splits(config, read_choices)
    bundle, length = load_for(config, "multiple_choice", USUAL_LENGTH)
    rows = {name: choice_rows(choices, bundle.tokenizer, length) for name, choices in files.items()}
    data = training_batches(
        rows["train"], files["train"].right, batch_size=config.batch_size, seed=config.seed, epochs=config.epochs
    )

    def score(name):
        return scores_of(files[name].right, np.stack(predict_rows(bundle.model, rows[name], 16)))

    epochs, kept = fit(
        config,
        bundle.model,
        data,
        steps_per_epoch(rows["train"], config.batch_size),
        title="choose",
        loss=masked_cross_entropy(),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        score=(lambda: score("dev")) if "dev" in files else None,
        best="accuracy",
    )
    found = {name: score(name) for name in files if name != "train"}
    more = {"epochs": epochs, "kept_epoch": kept, "truncated": rows["train"].truncated}
    return finish(config, bundle, started, {**found, **more})


def choice_rows(choices, tokenizer, max_length):
    """`Rows` of N to a text: the text, and each of its choices as the second text."""
    count = len(choices.choices[0])
    texts = [text for text in choices.texts for _ in range(count)]
    pairs = [choice for found in choices.choices for choice in found]
    return tokenize_examples(texts, pairs, tokenizer, max_length, count)


def scores_of(right, logits):
    """Accuracy with its interval, and the loss, of logits (n, N)."""
    right = np.asarray(right)
    accuracy = float(np.mean(logits.argmax(axis=1) == right))
    shifted = logits - logits.max(axis=1, keepdims=True)
    loss = np.mean(np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(right)), right])
    scores = {"examples": len(right), "accuracy": round(accuracy, 4), "interval": wilson_interval(accuracy, len(right))}
    return scores | {"loss": round(float(loss), 4)}


def evaluate(config, bundle, path):
    """Scores a model on a file of texts with choices: an `Evaluation`."""
    choices = read_choices(path)
    length = row_length(config, bundle, USUAL_LENGTH)
    logits = np.stack(predict_rows(bundle.model, choice_rows(choices, bundle.tokenizer, length), 16))
    errors = []
    for line, text, found, right, row in zip(
        choices.lines, choices.texts, choices.choices, choices.right, logits, strict=True
    ):
        given = int(row.argmax())
        if given != right:
            shown = {"line": line, "text": text, "right": found[right], "answer": found[given]}
            errors.append(shown | {"score": row[given] - row[right]})
    errors.sort(key=lambda row: -row["score"])
    return Evaluation(scores_of(choices.right, logits), errors)
