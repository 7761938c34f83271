"""Writes tf_model.zip: tiny random models that genuine `transformers` 4 saved as tf_model.h5.

In a throw-away environment: pip install "transformers==4.57.*" "tf-keras==2.20.*" "tensorflow==2.20.*"
and then: python tests/golden/make_tf_model.py

A folder a model: config.json, tf_model.h5, and expected.npz with `input/*` and `output/*`.
"""

import os
import sys
import tempfile
import zipfile
from pathlib import Path

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf
import transformers

SIZES = {
    "vocab_size": 29,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 11,
    "max_position_embeddings": 17,
}
SHARED = {key: SIZES[key] for key in ("vocab_size", "max_position_embeddings")}
CONFIGS = {
    "Bert": SIZES,
    "Roberta": {**SIZES, "type_vocab_size": 1},
    "DistilBert": {"dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 11, **SHARED},
    "Albert": {**SIZES, "embedding_size": 5, "num_hidden_layers": 3},
    "Electra": {**SIZES, "embedding_size": 5},
}
MODELS = {
    "Bert": ("PreTraining", "MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering"),
    "Roberta": ("MaskedLM", "SequenceClassification", "MultipleChoice"),
    "DistilBert": ("MaskedLM", "SequenceClassification"),
    "Albert": ("PreTraining", "MaskedLM", "SequenceClassification"),
    "Electra": ("PreTraining", "MaskedLM", "SequenceClassification"),
}
BATCH, CHOICES, LENGTH = 3, 2, 9


def main(path):
    with tempfile.TemporaryDirectory() as temporary:
        for family, tasks in MODELS.items():
            for task in tasks:
                folder = Path(temporary) / f"{family}For{task}"
                labels = {} if task in ("QuestionAnswering", "PreTraining") else {"num_labels": 3}
                config = getattr(transformers, f"{family}Config")(**CONFIGS[family], **labels)
                model = getattr(transformers, f"TF{family}For{task}")(config)
                inputs = drawn(config, task == "MultipleChoice")
                model(inputs)
                randomize(model, len(task))
                outputs = model(inputs, training=False)
                model.save_pretrained(folder)
                arrays = {f"input/{name}": value for name, value in inputs.items()}
                arrays |= {f"output/{name}": value.numpy() for name, value in outputs.items()}
                np.savez_compressed(folder / "expected.npz", **arrays)
        pack(Path(temporary), path)


def drawn(config, choices):
    rng = np.random.default_rng(0)
    shape = (BATCH, CHOICES, LENGTH) if choices else (BATCH, LENGTH)
    mask = (np.arange(LENGTH) < rng.integers(3, LENGTH + 1, shape[:-1])[..., None]).astype("int32")
    ids = np.where(mask, rng.integers(2, SIZES["vocab_size"], shape), config.pad_token_id)
    inputs = {"input_ids": ids.astype("int32"), "attention_mask": mask}
    if getattr(config, "type_vocab_size", 0) == 2:
        inputs["token_type_ids"] = (rng.integers(0, 2, shape) * mask).astype("int32")
    return inputs


def randomize(model, seed):
    """Every weight of order 0.3, gammas round 1."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(tf.cast(rng.normal(1.0 if "gamma" in weight.name else 0.0, 0.3, weight.shape), weight.dtype))


def pack(folder, path):
    """One archive whose bytes depend on the files alone."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                entry = zipfile.ZipInfo(file.relative_to(folder).as_posix())
                archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("tf_model.zip"))
