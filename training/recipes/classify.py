"""Recipe: a pretrained model and a labelled file in, a classifier of texts or pairs, or a regressor, out."""

import dataclasses
import time
from collections.abc import Callable

import keras
import numpy as np

from keras_bert.asking import first_text_room, window_stride
from keras_bert.packed import packed_model
from keras_bert.tokenization.windows import text_windows
from keras_bert.training.batches import (
    TEXTS_AT_ONCE,
    padding,
    predict_rows,
    rows_of_encodings,
    steps_per_epoch,
    tokenize_examples,
    training_batches,
)
from keras_bert.training.examples import chosen, label_ids, label_names, label_numbers, label_sets, read_examples
from keras_bert.training.fine_tuning import check_settings, finish, fit, load_for, read_splits, row_length
from keras_bert.training.losses import label_cross_entropy, masked_cross_entropy, squared_error
from keras_bert.training.metrics import classification_metrics, multilabel_metrics, regression_metrics
from keras_bert.training.metrics.classification import calibration, confusion_matrix
from keras_bert.training.packed_batches import packed_batches, packed_padding
from keras_bert.training.report import Evaluation
from keras_bert.training.splits import stratified_folds

USUAL_LENGTH = 128


@dataclasses.dataclass(frozen=True)
class Classify:
    """What to fine-tune on and how; fields that are not named here are those of `fine_tuning`.

    Args:
        train, dev, test: .tsv, .csv or .jsonl, as `read_examples` reads them; the labels of `train` are the classes.
        kind: "single" for one label a text, "multiple" for any number (parted by "|", or a list in JSON), "regression"
            for a number.
        dev_share: without `dev`, the share of `train` that is held out as such, with the same share of every class.
        folds: above 1, train this many times before, each time without another part, and report the parts' scores.
        layer_decay: how much slower each block learns than the one above it; 1 for all alike.
        stride: above 0, texts longer than `max_length` are not cut, but become windows that share so many tokens; each
            window learns the text's label, a text counts as much as any other, and its answer is the mean of their
            logits, as `predict(..., stride=...)` has it.
        packed: whether short texts share rows of `max_length` tokens, none seeing another, in place of rows that are
            padded; a step has `batch_size` texts in the mean. Losses are those of the same texts in rows of their own.
        balanced: whether each class counts as much as any other in the loss, however rare it is.
        text_column, pair_column, label_column: names or numbers of columns; "" for the usual names.
    """

    model: str
    train: str
    out: str
    dev: str = ""
    test: str = ""
    kind: str = "single"
    dev_share: float = 0.0
    folds: int = 0
    stride: int = 0
    packed: bool = False
    balanced: bool = False
    layer_decay: float = 1.0
    text_column: str = ""
    pair_column: str = ""
    label_column: str = ""
    max_length: int = 0
    batch_size: int = 32
    epochs: int = 3
    learning_rate: float = 5e-5
    lora_rank: int = 0
    patience: int = 0
    seed: int = 0

    def __post_init__(self):
        check_settings(self)
        if self.kind not in KINDS:
            raise ValueError(f"`kind` must be one of {', '.join(KINDS)}, got {self.kind!r}.")
        if not 0 <= self.dev_share <= 0.5 or (self.dev_share and self.dev):
            raise ValueError(f"`dev_share` must be from 0 to 0.5, and 0 where there is `dev`, got {self.dev_share}.")
        if self.stride < 0:
            raise ValueError(f"`stride` must be at least 0, got {self.stride}.")
        if not 0 < self.layer_decay <= 1:
            raise ValueError(f"`layer_decay` must be above 0 and at most 1, got {self.layer_decay}.")
        if self.packed and (self.stride or self.kind == "regression"):
            other = f"`stride` {self.stride}" if self.stride else "`kind` regression"
            raise ValueError(f"`packed` goes with classes of short texts, without windows or numbers, got {other}.")
        if self.folds < 0 or self.folds == 1:
            raise ValueError(f"`folds` must be 0 or at least 2, got {self.folds}.")
        if self.balanced and self.kind != "single":
            raise ValueError(f"`balanced` needs one label a text, got `kind` {self.kind}.")


@dataclasses.dataclass(frozen=True)
class Kind:
    """What differs between one label, several, and a number.

    Args:
        head: key in `HEADS`; options: of its function.
        loss: () -> the loss of targets and the model's output.
        best: the score that decides between epochs, the higher the better.
        metrics: () -> what `fit` shows.
    """

    head: str
    loss: Callable
    best: str
    options: dict = dataclasses.field(default_factory=dict)
    metrics: Callable = list


KINDS = {
    "single": Kind(
        "sequence_classifier",
        masked_cross_entropy,
        "accuracy",
        metrics=lambda: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
    ),
    "multiple": Kind("sequence_classifier", label_cross_entropy, "micro_f1", {"multi_label": True}),
    "regression": Kind("sequence_regressor", lambda: squared_error, "spearman"),
}


def run(config):
    """Trains, keeps the best weights, scores them, and writes the model and its metrics.

    Returns:
        dict, as in `metrics.json`: "labels"; "dev" and "test", the scores of the kept weights; "folds", those of each
        part; "epochs", the logs of each; "kept_epoch", counted from 1; "truncated", how many training texts were cut;
        "padding", with `packed`, its share of the training rows, and what it would be in rows of their own; "seconds".
    """
    started = time.monotonic()
    files = read_splits(config, lambda path: read(config, path))
    labels = labels_of(config, files["train"])
    for examples in files.values():
        targets_of(config, examples, labels)  # unknown labels are found before any work
    if config.dev_share:
        part = folds_of(config, files["train"], round(1 / config.dev_share)) == 0
        files["dev"] = chosen(files["train"], np.flatnonzero(part))
        files["train"] = chosen(files["train"], np.flatnonzero(~part))
    scores = []
    if config.folds:
        folds = folds_of(config, files["train"], config.folds)
        for fold in range(config.folds):
            inside, outside = (chosen(files["train"], np.flatnonzero(x)) for x in (folds == fold, folds != fold))
            parts = {**files, "train": outside, "test": inside}
            scores.append(train(config, parts, labels)[1]["test"])
    bundle, metrics = train(config, files, labels)
    return finish(config, bundle, started, metrics | ({"folds": scores} if scores else {}))


def train(config, files, labels):
    """Trains on `files["train"]`: gives the bundle with the kept weights, and its metrics."""
    kind = KINDS[config.kind]
    bundle, length = load_for(config, kind.head, USUAL_LENGTH, labels, **kind.options)
    rows, texts = {}, {}
    for name, examples in files.items():
        rows[name], texts[name] = rows_of(config, examples, bundle.tokenizer, length)
    targets = {name: targets_of(config, e, labels) for name, e in files.items()}
    weights = balanced_weights(targets["train"], len(labels)) if config.balanced else None
    if config.stride:
        windows = np.bincount(texts["train"])
        weights = (1.0 if weights is None else weights) / windows * np.mean(windows)
    make, options = (packed_batches, {"row_length": length}) if config.packed else (training_batches, {})
    data = make(
        rows["train"],
        targets["train"][texts["train"]],
        batch_size=config.batch_size,
        seed=config.seed,
        epochs=config.epochs,
        weights=None if weights is None else weights[texts["train"]],
        **options,
    )

    def score(name):
        return scores_of(config.kind, targets[name], outputs_of(bundle, rows[name], texts[name]), labels)

    epochs, kept = fit(
        config,
        packed_model(bundle.model) if config.packed else bundle.model,
        data,
        steps_per_epoch(rows["train"], config.batch_size),
        title="classify",
        loss=kind.loss(),
        weighted_metrics=kind.metrics(),
        score=(lambda: score("dev")) if "dev" in files else None,
        best=kind.best,
        layer_decay=config.layer_decay,
    )
    found = {name: score(name) for name in files if name != "train"}
    more = {"epochs": epochs, "kept_epoch": kept, "truncated": rows["train"].truncated}
    if config.packed:
        share = packed_padding(rows["train"], length, config.batch_size, config.seed)
        more["padding"] = {"packed": round(share, 4), "unpacked": round(padding(rows["train"]), 4)}
    return bundle, {"labels": labels, **found, **more}


def evaluate(config, bundle, path):
    """Scores a model on a labelled file: an `Evaluation`."""
    examples = read(config, path)
    targets = targets_of(config, examples, bundle.labels)
    length = row_length(config, bundle, USUAL_LENGTH)
    outputs = outputs_of(bundle, *rows_of(config, examples, bundle.tokenizer, length))
    metrics = scores_of(config.kind, targets, outputs, bundle.labels)
    named = {"text": examples.texts} | ({"pair": examples.pairs} if examples.pairs else {})
    if config.kind == "regression":
        order = np.argsort(-np.abs(outputs - targets), kind="stable")
        answers, scores, confusion, curve = outputs.round(4).tolist(), np.abs(outputs - targets), None, None
    elif config.kind == "multiple":
        probabilities = 1 / (1 + np.exp(-outputs))
        given = probabilities > 0.5
        order = np.flatnonzero(np.any(given != (targets > 0.5), axis=1))
        answers = ["|".join(np.array(bundle.labels)[row]) for row in given]
        scores, confusion, curve = np.abs(probabilities - targets).max(axis=1), None, None
    else:
        probabilities = softmax(outputs)
        given, scores = probabilities.argmax(axis=1), probabilities.max(axis=1)
        order = np.flatnonzero(given != targets)
        order = order[np.argsort(-scores[order], kind="stable")]
        answers = [bundle.labels[i] for i in given]
        confusion = confusion_matrix(targets, given, len(bundle.labels))
        curve, metrics["calibration_error"] = calibration(scores, given == targets)
        metrics["calibration_error"] = round(metrics["calibration_error"], 4)
    columns = {"line": examples.lines, **named, "label": examples.labels, "answer": answers, "score": scores}
    errors = [{name: values[i] for name, values in columns.items()} for i in order]
    return Evaluation(metrics, errors, bundle.labels, confusion, curve)


def rows_of(config, examples, tokenizer, max_length):
    """Gives `Rows`, and the number of the example that each belongs to, (R,): its own, unless there is a `stride`."""
    if not config.stride:
        rows = tokenize_examples(examples.texts, examples.pairs, tokenizer, max_length)
        return rows, np.arange(len(rows))
    stride = window_stride(config.stride, max_length, examples.pairs is not None)
    first = first_text_room(max_length) if examples.pairs else None
    cut = []
    for start in range(0, len(examples), TEXTS_AT_ONCE):
        texts, pairs = (part and part[start : start + TEXTS_AT_ONCE] for part in (examples.texts, examples.pairs))
        cut += [text_windows(found, max_length, stride, first) for found in tokenizer.encode_batch(texts, pairs)]
    rows = rows_of_encodings([window for windows in cut for window in windows], tokenizer.pad_id)
    return rows, np.repeat(np.arange(len(cut)), [len(windows) for windows in cut])


def outputs_of(bundle, rows, texts):
    """The model's output for each example, (n, C) or (n,): the mean of its rows'."""
    outputs = np.stack(predict_rows(bundle.model, rows))
    means = np.zeros((texts[-1] + 1, *outputs.shape[1:]), outputs.dtype)
    np.add.at(means, texts, outputs)
    return means / np.bincount(texts).reshape(-1, *[1] * (outputs.ndim - 1)).astype(outputs.dtype)


def read(config, path):
    """The examples of a file."""
    columns = (config.text_column, config.pair_column, config.label_column)
    return read_examples(path, *columns, may_lack_label=config.kind == "multiple")


def labels_of(config, examples):
    """The names of the classes; None for numbers."""
    if config.kind == "regression":
        return None
    return label_names(examples) if config.kind == "single" else label_sets(examples)[0]


def targets_of(config, examples, labels):
    """What the model should answer: (n,) int, (n, C) of 0 and 1, or (n,) float."""
    if config.kind == "regression":
        return label_numbers(examples)
    if config.kind == "multiple":
        return label_sets(examples, labels)[1]
    return np.array(label_ids(examples, labels), "int32")


def folds_of(config, examples, count):
    """The part of each example; every part has the same share of each class, where an example has one."""
    classes = examples.labels if config.kind == "single" else np.zeros(len(examples))
    return stratified_folds(classes, count, config.seed)


def balanced_weights(targets, count):
    """What each example counts, (n,), so that all classes count alike, and an example 1 in the mean."""
    return (len(targets) / count / np.maximum(np.bincount(targets, minlength=count), 1))[targets]


def scores_of(kind, targets, outputs, labels):
    """The metrics of a kind, and the "loss", from the model's outputs (n, C) or (n,)."""
    if kind == "regression":
        return regression_metrics(targets, outputs) | {"loss": round(float(np.mean((targets - outputs) ** 2)), 4)}
    if kind == "multiple":
        loss = np.mean(np.logaddexp(0, outputs) - targets * outputs)
        return multilabel_metrics(targets > 0.5, outputs > 0, labels) | {"loss": round(float(loss), 4)}
    loss = -np.mean(np.log(softmax(outputs))[np.arange(len(targets)), targets])
    return classification_metrics(targets, outputs.argmax(axis=1), labels) | {"loss": round(float(loss), 4)}


def softmax(logits):
    """Probabilities of logits (n, C), in float64."""
    powers = np.exp(logits.astype("float64") - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
