"""Recipe: a pretrained model and a labelled file in, a classifier of texts or pairs out."""

import dataclasses
import time
from pathlib import Path

import keras
import numpy as np

import keras_bert
from keras_bert.files import check_replaceable
from keras_bert.prediction import checked_length
from keras_bert.training.batches import evaluation_batches, steps_per_epoch, tokenize_examples, training_batches
from keras_bert.training.examples import label_ids, label_names, read_examples
from keras_bert.training.metrics import classification_metrics
from keras_bert.training.optimization import adamw, warmup_linear
from keras_bert.training.progress import ProgressBar
from keras_bert.training.run_folder import write_run

SPLITS = ("train", "dev", "test")
EVALUATION_BATCH = 64


@dataclasses.dataclass(frozen=True)
class Classify:
    """What to fine-tune on and how.

    Args:
        model: folder of the pretrained model.
        train: labelled file, .tsv, .csv or .jsonl; its labels are the classes.
        out: folder to write: the model, and `metrics.json` in it.
        dev: labelled file that decides which epoch's weights are kept; without one, the last epoch's.
        test: labelled file that is scored once, at the end.
        text_column, pair_column, label_column: names or numbers of columns; "" for the usual names.
        max_length: T, the most tokens of a text or pair; longer ones are cut. 0 takes 128, or all that the
            model has positions for.
        learning_rate: its peak, after a tenth of the steps.
        seed: decides the head's start, the batches and dropout.
    """

    model: str
    train: str
    out: str
    dev: str = ""
    test: str = ""
    text_column: str = ""
    pair_column: str = ""
    label_column: str = ""
    max_length: int = 0
    batch_size: int = 32
    epochs: int = 3
    learning_rate: float = 5e-5
    seed: int = 0

    def __post_init__(self):
        for name in ("model", "train", "out"):
            if not getattr(self, name):
                raise ValueError(f"`{name}` must name a {'file' if name == 'train' else 'folder'}, got ''.")
        if self.max_length < 0:
            raise ValueError(f"`max_length` must be at least 0, got {self.max_length}.")
        for name in ("batch_size", "epochs", "learning_rate"):
            if not getattr(self, name) > 0:
                raise ValueError(f"`{name}` must be positive, got {getattr(self, name)}.")


def run(config):
    """Trains, keeps the best weights, scores them, and writes the model and its metrics.

    Returns:
        dict, as in `metrics.json`: "labels"; "dev" and "test", `classification_metrics` of the kept weights; "epochs",
        the logs of each; "kept_epoch", counted from 1; "truncated", how many training texts were cut; "seconds".
    """
    started = time.monotonic()
    if Path(config.out).resolve() == Path(config.model).resolve():
        raise ValueError(f"`out` must be another folder than `model`, got {config.out} for both.")
    check_replaceable(config.out)
    columns = (config.text_column, config.pair_column, config.label_column)
    files = {name: read_examples(getattr(config, name), *columns) for name in SPLITS if getattr(config, name)}
    labels = label_names(files["train"])
    numbers = {name: label_ids(examples, labels) for name, examples in files.items()}

    keras.utils.set_random_seed(config.seed)
    bundle = keras_bert.load(config.model, new_head="sequence_classifier", labels=labels)
    if bundle.tokenizer is None:
        raise ValueError(f"{config.model} must hold vocab.txt or tokenizer.json, got neither.")
    length = checked_length(config.max_length or min(128, bundle.config.max_length), bundle)
    rows = {name: tokenize_examples(e.texts, e.pairs, bundle.tokenizer, length) for name, e in files.items()}
    evaluation = {
        name: evaluation_batches(rows[name], numbers[name], batch_size=EVALUATION_BATCH)
        for name in rows.keys() - {"train"}
    }
    epochs, kept = fit(config, bundle.model, rows["train"], numbers["train"], evaluation.get("dev"))
    metrics = {
        "config": dataclasses.asdict(config),
        "labels": labels,
        **{name: evaluate(bundle.model, evaluation[name], labels) for name in SPLITS if name in evaluation},
        "epochs": epochs,
        "kept_epoch": kept,
        "truncated": rows["train"].truncated,
        "seconds": round(time.monotonic() - started, 1),
    }
    write_run(bundle, metrics, config.out)
    return metrics


def fit(config, model, examples, labels, dev):
    """Trains by `model.fit`, and leaves the model with the kept weights.

    Returns:
        The logs of each epoch, and the number, from 1, of the one whose weights are kept.
    """
    steps = steps_per_epoch(examples, config.batch_size)
    total = steps * config.epochs
    model.compile(
        adamw(warmup_linear(config.learning_rate, total // 10, total)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
    )
    data = training_batches(examples, labels, batch_size=config.batch_size, seed=config.seed, epochs=config.epochs)
    best = BestWeights()
    with ProgressBar(
        total, "classify", {"loss": "loss", "accuracy": "accuracy", "val_accuracy": "dev accuracy"}
    ) as bar:
        history = model.fit(
            data,
            epochs=config.epochs,
            steps_per_epoch=steps,
            validation_data=dev,
            callbacks=[bar, *([best] if dev else [])],
            shuffle=False,
            verbose=0,
        ).history
    epochs = [
        {name.replace("val_", "dev_"): round(values[epoch], 4) for name, values in history.items()}
        for epoch in range(config.epochs)
    ]
    return epochs, best.epoch + 1 if dev else config.epochs


def evaluate(model, data, labels):
    """Scores a model on batches of (features, labels): `classification_metrics`."""
    right = np.concatenate([y.numpy() for _, y in data])
    logits = model.predict(data.map(lambda x, _: x), verbose=0)
    return classification_metrics(right, np.argmax(logits, axis=-1), labels)


class BestWeights(keras.callbacks.Callback):
    """Keeps the weights of the epoch with the highest `val_accuracy`, of equal ones that with the lowest `val_loss`."""

    def __init__(self):
        super().__init__()
        self.best, self.epoch, self.weights = None, None, None

    def on_epoch_end(self, epoch, logs=None):
        score = (logs["val_accuracy"], -logs["val_loss"])
        if self.best is None or score > self.best:
            self.best, self.epoch, self.weights = score, epoch, self.model.get_weights()

    def on_train_end(self, logs=None):
        self.model.set_weights(self.weights)
