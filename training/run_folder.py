"""What a recipe leaves behind: the model's folder with the run's metrics in it."""

import json
from pathlib import Path

import keras_bert
from keras_bert.files import replace_folder

METRICS = "metrics.json"


def check_out(out):
    """Refuses a folder to write that holds anything but an earlier run: it is replaced whole."""
    out = Path(out)
    if out.is_file() or (out.is_dir() and any(out.iterdir()) and not (out / METRICS).is_file()):
        raise ValueError(f"{out} holds something else than an earlier run; it would be replaced. Name another folder.")


def write_run(bundle, metrics, out):
    """Writes the model and `metrics.json` into one folder, whole or not at all."""
    with replace_folder(out) as folder:
        keras_bert.save(bundle, folder)
        text = json.dumps(metrics, indent=2, ensure_ascii=False) + "\n"
        (folder / METRICS).write_text(text, encoding="utf-8")
