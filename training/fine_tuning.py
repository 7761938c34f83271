"""What all recipes of fine-tuning have in common: settings, files, the loop round `fit`, the best weights, the folder.

Their dataclasses share these fields:
    model: folder of the pretrained model.
    train: file to learn from.
    out: folder to write: the model, and `metrics.json` in it.
    dev: file that decides which epoch's weights are kept; without one, the last epoch's.
    test: file that is scored once, at the end.
    max_length: T, the most tokens of a row. 0 takes the recipe's usual length, or all that the model has positions for.
    batch_size: examples of a step.
    learning_rate: its peak, after a tenth of the steps.
    lora_rank: of adapters beside all dense layers, which are trained in place of the encoder; 0 for none. They need
        learning rates about ten times as high, and are also written to `adapter` in `out`.
    patience: epochs without a better dev score after which training stops; 0 for all epochs.
    seed: decides the head's start, the batches and dropout.
"""

import dataclasses
import time
import warnings
from pathlib import Path

import keras

import keras_bert
from keras_bert.config import PROJECTIONS
from keras_bert.files import check_replaceable
from keras_bert.lora import add_lora
from keras_bert.prediction import checked_length
from keras_bert.training.optimization import adamw, print_decay, warmup_linear
from keras_bert.training.progress import ProgressBar
from keras_bert.training.run_folder import write_run

SPLITS = ("train", "dev", "test")
HIGH_RATE = 2e-4  # above it models of BERT's size forget what they know and answer one class
LARGE = 256  # hidden size of such a model; smaller ones take higher rates


def check_settings(config):
    """Refuses fields that no run can have.

    Raises:
        ValueError: a path is empty, or a number is out of its range.
    """
    for name in ("model", "train", "out"):
        if not getattr(config, name):
            raise ValueError(f"`{name}` must name a {'file' if name == 'train' else 'folder'}, got ''.")
    for name in ("max_length", "lora_rank", "patience"):
        if getattr(config, name) < 0:
            raise ValueError(f"`{name}` must be at least 0, got {getattr(config, name)}.")
    for name in ("batch_size", "epochs", "learning_rate"):
        if not getattr(config, name) > 0:
            raise ValueError(f"`{name}` must be positive, got {getattr(config, name)}.")
    if config.patience and not config.dev:
        raise ValueError("`patience` needs `dev`, whose score it waits for.")


def read_splits(config, read):
    """Reads the files of a run before anything else is done: dict from split to `read(path)`.

    Raises:
        ValueError: `out` is `model`, or may not be replaced; or what `read` raises.
    """
    if Path(config.out).resolve() == Path(config.model).resolve():
        raise ValueError(f"`out` must be another folder than `model`, got {config.out} for both.")
    check_replaceable(config.out)
    return {name: read(getattr(config, name)) for name in SPLITS if getattr(config, name)}


def load_for(config, head, usual_length, labels=None, **options):
    """Loads the pretrained model with a fresh head, and makes it ready as `prepared` does.

    Returns:
        The bundle, and the most tokens of a row.
    """
    keras.utils.set_random_seed(config.seed)
    return prepared(config, keras_bert.load(config.model, new_head=head, labels=labels, **options), usual_length)


def prepared(config, bundle, usual_length):
    """Seeds dropout, checks a bundle, and adds `lora_rank`; gives the bundle, and the most tokens of a row."""
    keras.utils.set_random_seed(config.seed)
    if bundle.tokenizer is None:
        raise ValueError(f"{config.model} must hold vocab.txt or tokenizer.json, got neither.")
    if config.lora_rank:
        bundle = add_lora(bundle, config.lora_rank, alpha=2.0 * config.lora_rank, targets=PROJECTIONS)
    warn_of_known_failures(config, bundle)
    return bundle, row_length(config, bundle, usual_length)


def row_length(config, bundle, usual_length):
    """The most tokens of a row: what the settings say, else the usual length or all positions; refuses more."""
    return checked_length(config.max_length or min(usual_length, bundle.config.max_length), bundle)


def warn_of_known_failures(config, bundle):
    """Warns of settings with which others failed; what is never wanted is an error elsewhere."""
    adapters = bundle.config.lora is not None  # which take rates ten times as high
    if config.learning_rate > HIGH_RATE and bundle.config.hidden_size >= LARGE and not adapters:
        warnings.warn(
            f"`learning_rate` {config.learning_rate:g} is known to ruin models of this size; 2e-5 to 5e-5 are usual.",
            stacklevel=2,
        )


def fit(
    config, model, data, steps, *, title, loss, loss_weights=None, weighted_metrics=None, score=None, best=None,
    layer_decay=1.0,
):  # fmt: skip
    """Trains by `model.fit`, and leaves the model with the kept weights.

    Args:
        config: a recipe's settings.
        data: tf.data.Dataset of all epochs' batches, as `training_batches` gives it.
        steps: batches of an epoch.
        title: what the progress bar is called.
        loss, loss_weights, weighted_metrics: those of `compile`.
        layer_decay: that of `adamw`.
        score: () -> dict of scores of the dev file, or None.
        best: the name of the one that decides, higher is better; of equal ones the lower "loss", if there is one.

    Returns:
        The logs of each epoch, and the number, from 1, of the one whose weights are kept.
    """
    total = steps * config.epochs
    optimizer = adamw(warmup_linear(config.learning_rate, total // 10, total), layer_decay=layer_decay)
    model.compile(optimizer, loss, loss_weights=loss_weights, weighted_metrics=weighted_metrics)
    print_decay(model)
    keeper = BestWeights(score, best, config.patience) if score else None
    shown = {"loss": "loss", "accuracy": "accuracy", f"dev_{best}": f"dev {best}"}
    with ProgressBar(total, title, shown) as bar:
        history = model.fit(
            data,
            epochs=config.epochs,
            steps_per_epoch=steps,
            callbacks=[keeper, bar] if keeper else [bar],
            shuffle=False,
            verbose=0,
        ).history
    epochs = [
        {name: round(float(values[epoch]), 4) for name, values in history.items()}
        for epoch in range(len(history["loss"]))
    ]
    return epochs, keeper.epoch + 1 if keeper else len(epochs)


class BestWeights(keras.callbacks.Callback):
    """Scores the model after each epoch, and leaves it with the weights of the best one.

    Args:
        score: () -> dict; its numbers go into the epoch's logs as "dev_...".
        best: the name of the score that decides, as in `fit`.
        patience: epochs without a better score after which training stops; 0 for never.
    """

    def __init__(self, score, best, patience=0):
        super().__init__()
        self.score, self.name, self.patience = score, best, patience
        self.best, self.epoch, self.weights = None, None, None

    def on_epoch_end(self, epoch, logs=None):
        scores = {name: value for name, value in self.score().items() if isinstance(value, int | float)}
        logs.update({f"dev_{name}": value for name, value in scores.items()})
        rank = (scores[self.name], -scores.get("loss", 0.0))
        if self.best is None or rank > self.best:
            self.best, self.epoch, self.weights = rank, epoch, self.model.get_weights()
        elif self.patience and epoch - self.epoch >= self.patience:
            self.model.stop_training = True

    def on_train_end(self, logs=None):
        self.model.set_weights(self.weights)


def finish(config, bundle, started, metrics):
    """Writes the model and `metrics.json`: the settings, `metrics`, and the seconds since `started`; gives the dict."""
    metrics = {"config": dataclasses.asdict(config), **metrics, "seconds": round(time.monotonic() - started, 1)}
    write_run(bundle, metrics, config.out)
    return metrics
