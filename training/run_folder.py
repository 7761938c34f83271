"""What a recipe leaves behind: the model's folder with the run's metrics in it."""

import json

import keras_bert
from keras_bert.files import replace_folder

METRICS = "metrics.json"


def write_run(bundle, metrics, out):
    """Writes the model and `metrics.json` into one folder, whole or not at all."""
    with replace_folder(out) as folder:
        keras_bert.save(bundle, folder)
        text = json.dumps(metrics, indent=2, ensure_ascii=False) + "\n"
        (folder / METRICS).write_text(text, encoding="utf-8")
