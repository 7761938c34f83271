"""What a training says of itself while it runs: lines of JSON, TensorBoard's events, and evaluations on the way."""

import json
import shutil
import time
from pathlib import Path

import keras

from keras_bert.files import replace_file
from keras_bert.training.event_file import EventFile

LOG, EVENTS = "log.jsonl", "tensorboard"
LINES, FEWEST = 200, 100  # lines of a run, but one every 100 steps in long ones


class Journal:
    """The log of a run that may go on from an earlier process: `log.jsonl` and the folder `tensorboard`.

    A line of training has "step" and numbers by name; one of an evaluation has "step" and "held_out", a dict of them.

    Args:
        folder: where both go, or None for a process that writes nothing.
        first: the step that the run goes on from; what the earlier process wrote of later steps is forgotten.
    """

    def __init__(self, folder, first=0):
        self.path = None if folder is None else Path(folder) / LOG
        self.events = None
        if folder is None:
            return
        if not first:
            shutil.rmtree(Path(folder) / EVENTS, ignore_errors=True)
        kept = [line for line in read_log(self.path) if line["step"] <= first] if first else []
        with replace_file(self.path) as temporary, open(temporary, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in kept)
        self.events = EventFile(Path(folder) / EVENTS, first)

    def write(self, step, values, held_out=None):
        """Adds a line of training, or with `held_out` that of an evaluation."""
        if self.path is None:
            return
        line = {"step": step, **values} | ({} if held_out is None else {"held_out": held_out})
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        shown = {f"train/{name}": value for name, value in values.items()}
        shown |= {f"held_out/{name}": value for name, value in (held_out or {}).items()}
        self.events.write(step, shown)

    def close(self):
        if self.events is not None:
            self.events.close()


def read_log(path):
    """Reads `log.jsonl`: list of dicts, without a last line that a kill has cut."""
    if not Path(path).is_file():
        return []
    lines = Path(path).read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines[:-1]]  # what is behind the last line end is not whole


def log_interval(steps):
    """How many steps a line of the log stands for."""
    return max(1, min(steps // LINES, FEWEST))


class Reports(keras.callbacks.Callback):
    """Writes a journal during `fit`, and evaluates at given steps; stands before `Checkpoints` in the list.

    The metrics of training are means since the line before, so they say what the model does now.

    Args:
        journal: a `Journal`.
        evaluate: () -> dict of results on held-out data.
        named: Keras's logs -> dict of the results to keep.
        at: the steps to evaluate at, the last one of each `fit` among them.
        every: steps from one line to the next.
        first: the step to begin at.
        curve: list; each evaluation adds {"step", "train", "held_out"}, with the mean of training since the one before.
    """

    def __init__(self, journal, evaluate, named, at, every, first, curve):
        super().__init__()
        self.journal, self.evaluate, self.named, self.curve = journal, evaluate, named, curve
        self.at, self.every, self.step = set(at), every, first
        self.lines, self.begun = [], first

    def on_train_begin(self, logs=None):
        self._start_line()

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        if batch + 1 < self.params["steps"]:  # after the last one Keras reads the metrics: see `on_epoch_end`
            self._look(logs)

    def on_epoch_end(self, epoch, logs=None):
        self._look(logs)

    def _start_line(self):
        self.begun, self.started = self.step, time.monotonic()

    def _look(self, logs):
        report = self.step in self.at
        if report or self.step % self.every == 0:
            self._write_line(logs)
            self.model.reset_metrics()
            if report:
                self._evaluate()
            self._start_line()

    def _write_line(self, logs):
        steps, seconds = self.step - self.begun, time.monotonic() - self.started
        values = self.named(logs)
        self.lines.append((steps, values))
        tokens = float(logs["tokens"])
        self.journal.write(
            self.step,
            {
                **values,
                "learning_rate": float(f"{float(_rate(self.model.optimizer)):.4g}"),
                "gradient_norm": round(float(logs["gradient_norm"]), 4),
                "masked_tokens": round(float(logs["masked_tokens"]), 1),
                "tokens_per_second": round(tokens * steps / seconds, 1),
            },
        )

    def _evaluate(self):
        held_out = self.evaluate()
        total = sum(steps for steps, _ in self.lines)
        train = {
            name: round(sum(steps * values[name] for steps, values in self.lines) / total, 4) for name in held_out
        }
        self.lines = []
        self.curve.append({"step": self.step, "train": train, "held_out": held_out})
        self.journal.write(self.step, {}, held_out)
        self.model.reset_metrics()


def _rate(optimizer):
    return getattr(optimizer, "inner_optimizer", optimizer).learning_rate  # that of loss scaling
