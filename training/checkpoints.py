"""Uses TensorFlow. Checkpoints of a training: killed at any moment, it goes on to the weights it would have had.

A checkpoint is a folder `step_00000120`: `state.safetensors` with weights, optimizer (its step, the loss scale) and the
counters of dropout, and `manifest.json` with the step, the config, the data's place and checksums.
"""

import hashlib
import json
import math
import shutil
import signal
import sys
import warnings
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from keras_bert.files import read_json, replace_folder
from keras_bert.training.strategies import is_chief

STATE, MANIFEST, FORMAT = "state.safetensors", "manifest.json", 1
LOOK_EVERY = 50  # steps between looks at the loss, which wait for the step


class Checkpoints(keras.callbacks.Callback):
    """Saves a training every so many steps, when it is asked to end (SIGTERM) and at its end, and restores it.

    Where a step ends an epoch, it is saved after validation and the callbacks before this one in the list.

    checkpoints = Checkpoints("run/checkpoints", every=1000, config=dataclasses.asdict(config))
    step = checkpoints.resume(model)  # 0 at first
    model.fit(batches(start=step), callbacks=[checkpoints], shuffle=False)

    A loss that is no number stops the training, and is never saved. Of several workers the first one writes, into a
    folder that all of them can read. Weights are equal to the last bit where operations are: on GPUs they need
    `tf.config.experimental.enable_op_determinism()`.

    Args:
        folder: where the checkpoints go, and nothing else.
        every: steps, as batches of `fit`, from one to the next.
        config: dict of what must be alike for a training to go on, such as a recipe's fields.
        keep: how many of the newest stay.
        place: step -> a JSON value for the caller, given back by `resume` as `restored`; batches that are a function of
            the step need none.
    """

    def __init__(self, folder, every, config=None, keep=3, place=None):
        super().__init__()
        for name, value in (("every", every), ("keep", keep)):
            if type(value) is not int or value < 1:
                raise ValueError(f"`{name}` must be an integer of at least 1, got {value!r}.")
        self.folder, self.every, self.keep = Path(folder), every, keep
        self.config = json.loads(json.dumps(config or {}))
        self.place = place or (lambda step: None)
        self.step, self.saved, self.restored, self.asked_to_end = 0, None, None, False

    def resume(self, model):
        """Restores a compiled model from the newest good checkpoint.

        Returns:
            int, the steps it has had; 0 where there is no checkpoint.

        Raises:
            ValueError: the config or the model is another one, no checkpoint is whole, or the workers see different
                ones.
        """
        with model.distribute_strategy.scope():
            if not model.optimizer.built:
                model.optimizer.build(model.trainable_weights)
        manifest, state = newest_checkpoint(self.folder) or ({"step": 0}, None)
        _check_alike(manifest["step"], model.distribute_strategy)
        if state is not None:
            _check_config(manifest["config"], self.config, self.folder)
            _assign(model, state, self.folder)
            self.restored, self.saved = manifest["place"], manifest["step"]
        self.step = manifest["step"]
        return self.step

    def save(self):
        """Writes a checkpoint of this moment, and removes the oldest ones."""
        if self.saved == self.step:
            return
        if is_chief(self.model.distribute_strategy):
            write_checkpoint(self.folder, self.model, self.step, self.config, self.place(self.step))
            for path in _checkpoints(self.folder)[self.keep :]:
                shutil.rmtree(path, ignore_errors=True)
        self.saved = self.step

    def on_train_begin(self, logs=None):
        try:
            self.signal_before = signal.signal(signal.SIGTERM, self._note_signal)
        except ValueError:  # not in the main thread: nobody sends it signals
            self.signal_before = None

    def on_train_end(self, logs=None):
        if self.signal_before is not None:
            signal.signal(signal.SIGTERM, self.signal_before)
        self.save()

    def on_train_batch_begin(self, batch, logs=None):
        self._between_steps()

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        if self.step % self.every == 0 or self.step % LOOK_EVERY == 0:
            self._look_at(logs)

    def on_epoch_end(self, epoch, logs=None):
        self._look_at(logs)
        self._between_steps()

    def _between_steps(self):
        if self.step and self.step % self.every == 0:
            self.save()
        self._leave_if_asked()

    def _look_at(self, logs):
        loss = float((logs or {}).get("loss", 0.0))
        if not math.isfinite(loss):
            last = f"The last good checkpoint is of step {self.saved}." if self.saved else "There is no checkpoint yet."
            raise ValueError(
                f"The loss is {loss} after step {self.step}: the training has failed. {last} "
                "Try a lower learning rate or a longer warm-up."
            )

    def _note_signal(self, number, frame):
        signal.signal(signal.SIGTERM, self.signal_before or signal.SIG_DFL)  # a second one ends it at once
        self.asked_to_end = True

    def _leave_if_asked(self):
        """Saves and leaves. Workers other than the chief train on until it has left, which they notice."""
        if self.asked_to_end and is_chief(self.model.distribute_strategy):
            self.save()
            print(f"Asked to end. Saved at step {self.step}; started again, it goes on there.", file=sys.stderr)
            raise SystemExit(128 + signal.SIGTERM)


def write_checkpoint(folder, model, step, config, place):
    """Writes `folder`/step_..., whole or not at all.

    Raises:
        ValueError: a weight is no number.
        OSError: the disk is full, or the like; older checkpoints stay.
    """
    state = {name: np.asarray(variable.numpy(), order="C") for name, variable in _variables(model).items()}
    bad = next((name for name, value in state.items() if "weights/" in name and not _is_finite(value)), None)
    if bad is not None:
        raise ValueError(f"The weights are no numbers after step {step}: the training has failed. Nothing was saved.")
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob(".step_*.tmp"):  # of a process that was killed while writing
        shutil.rmtree(path, ignore_errors=True)
    try:
        with replace_folder(folder / f"step_{step:08d}") as temporary:
            save_file(state, temporary / STATE)
            manifest = {
                "format": FORMAT,
                "step": step,
                "config": config,
                "place": place,
                "sha256": _checksum(temporary / STATE),
            }
            text = json.dumps({**manifest, "manifest_sha256": _digest(manifest)}, indent=2, ensure_ascii=False)
            (temporary / MANIFEST).write_text(text + "\n", encoding="utf-8")
    except (OSError, SafetensorError) as error:
        message = f"The checkpoint of step {step} cannot be written to {folder}: {error}. Older ones stay."
        raise OSError(message) from None


def newest_checkpoint(folder):
    """Gives the manifest and the arrays of the newest checkpoint that is whole, or None where there is none.

    Warns of every newer one that is not whole.

    Raises:
        ValueError: there are checkpoints, but none is whole.
    """
    found = _checkpoints(Path(folder))
    for path in found:
        try:
            return _read(path)
        except (ValueError, OSError, SafetensorError) as error:
            warnings.warn(f"The checkpoint {path} is not whole, the one before it is used: {error}", stacklevel=2)
    if found:
        raise ValueError(f"No checkpoint in {folder} is whole, of {len(found)}. Name another folder to start anew.")
    return None


def _read(path):
    manifest = read_json(path / MANIFEST)
    if manifest.pop("manifest_sha256", None) != _digest(manifest):
        raise ValueError(f"{MANIFEST} does not have its checksum.")
    if manifest["format"] != FORMAT:
        raise ValueError(f"its format is {manifest['format']}, this version reads {FORMAT}.")
    if _checksum(path / STATE) != manifest["sha256"]:
        raise ValueError(f"{STATE} does not have its checksum.")
    return manifest, load_file(path / STATE)


def _checkpoints(folder):
    """Paths, the newest first."""
    return sorted(folder.glob("step_*"), reverse=True)


def _checksum(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(manifest):
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _is_finite(array):
    return not np.issubdtype(array.dtype, np.floating) or bool(np.isfinite(array).all())


def _variables(model):
    """All that a training changes, by kind and number: Keras numbers names anew in each process."""
    weights = {id(weight) for weight in model.weights}
    kinds = {
        "weights": model.weights,
        "random": [variable for variable in model.variables if id(variable) not in weights],
        "optimizer": model.optimizer.variables,
    }
    return {f"{kind}/{i}": variable for kind, values in kinds.items() for i, variable in enumerate(values)}


def _assign(model, state, folder):
    """Sets everything, or nothing."""
    variables = _variables(model)
    differing = [
        name
        for name in sorted(variables.keys() | state.keys())
        if name not in variables or name not in state or tuple(variables[name].shape) != state[name].shape
    ]
    if differing:
        name = differing[0]
        path = variables[name].path if name in variables else name
        raise ValueError(f"The checkpoints in {folder} are of another model or optimizer: {path} is not alike.")
    for name, variable in variables.items():
        variable.assign(state[name])


def _check_config(before, now, folder):
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    if names:
        changes = ", ".join(f"`{name}` was {before.get(name)!r} and is {now.get(name)!r}" for name in names)
        raise ValueError(f"The checkpoints in {folder} have another config: {changes}. Set it back or start anew.")


def _check_alike(step, strategy):
    """All workers must see the same checkpoint; the same sums on each of them tell."""

    def sums():
        numbers = tf.constant([1, step, step * step], tf.int64)
        return tf.distribute.get_replica_context().all_reduce("SUM", numbers)

    if strategy.num_replicas_in_sync > 1:
        count, total, squares = strategy.experimental_local_results(strategy.run(sums))[0].numpy().tolist()
        if count * squares != total * total:
            raise ValueError(
                f"This worker goes on at step {step} and others do not: all of them must see one folder of checkpoints."
            )
