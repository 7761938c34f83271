"""What a recipe leaves behind: the model's folder with the run's metrics in it, and its adapters."""

import json

import keras_bert
from keras_bert.files import replace_folder
from keras_bert.lora import save_adapter

METRICS = "metrics.json"
ADAPTER = "adapter"


def write_run(bundle, metrics, out):
    """Writes the model and `metrics.json` into one folder, whole or not at all; adapters also by themselves."""
    with replace_folder(out) as folder:
        keras_bert.save(bundle, folder)
        if bundle.config.lora is not None:
            save_adapter(bundle, folder / ADAPTER)
        text = json.dumps(metrics, indent=2, ensure_ascii=False) + "\n"
        (folder / METRICS).write_text(text, encoding="utf-8")
