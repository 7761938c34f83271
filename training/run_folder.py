"""Where a run is kept: while it goes on a folder of checkpoints beside `out`, at the end the model with its metrics."""

import dataclasses
import json
from pathlib import Path

import keras_bert
from keras_bert.files import replace_folder
from keras_bert.lora import save_adapter
from keras_bert.training.checkpoints import Checkpoints, newest_checkpoint

METRICS = "metrics.json"
ADAPTER = "adapter"
MAY_DIFFER = ("out", "strategy", "resume", "checkpoint_every")  # between a run and the one that goes on from it


def write_run(bundle, metrics, out, add=None):
    """Writes the model and `metrics.json` into one folder, whole or not at all; adapters also by themselves.

    Args:
        add: a function that is given the folder before it gets its name, to write more into it.
    """
    with replace_folder(out) as folder:
        keras_bert.save(bundle, folder)
        if bundle.config.lora is not None:
            save_adapter(bundle, folder / ADAPTER)
        if add is not None:
            add(folder)
        text = json.dumps(metrics, indent=2, ensure_ascii=False) + "\n"
        (folder / METRICS).write_text(text, encoding="utf-8")


def folder_beside(out):
    """Where the checkpoints of a run go."""
    return Path(out).with_name(f"{Path(out).name}.checkpoints")


def earlier_run(config):
    """What the newest checkpoint says of the run that it is of; {} where there is none.

    Args:
        config: a recipe's settings, with `out` and `resume`.

    Raises:
        ValueError: there is one, and the run is not to be resumed.
    """
    folder = folder_beside(config.out)
    found = newest_checkpoint(folder)
    if found is None:
        return {}
    if not config.resume:
        raise ValueError(f"{folder} holds checkpoints of a run that has not ended. Go on by `resume`, or remove it.")
    return found[0]["place"]


def resumed(config, model, so_far):
    """Puts `model` where the newest checkpoint has it: the list of callbacks that write more, and the step to go on at.

    Args:
        config: a recipe's settings, with `out` and `checkpoint_every`.
        so_far: dict that each checkpoint keeps as it then is.
    """
    if not config.checkpoint_every:
        return [], 0
    kept = {name: value for name, value in dataclasses.asdict(config).items() if name not in MAY_DIFFER}
    writer = Checkpoints(folder_beside(config.out), config.checkpoint_every, kept, place=lambda step: so_far)
    return [writer], writer.resume(model)
