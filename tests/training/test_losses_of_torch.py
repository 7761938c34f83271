"""The losses of 50 steps are those of torch and `transformers`: the same start, the same batches, no dropout."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import keras_bert
from keras_bert.training.contrastive import CosineError, InBatchNegatives, siamese
from keras_bert.training.losses import (
    graded_cross_entropy,
    label_cross_entropy,
    masked_cross_entropy,
    span_cross_entropy,
    squared_error,
)
from keras_bert.training.optimization import adamw, warmup_linear
from tests.models import LABELS, VOCAB, randomize, tiny_config

WITNESS = "KERAS_BERT_WITNESS"
STEPS = {"peak": 2e-3, "warmup": 5, "total": 50}
BATCHES, ROWS, T = 5, 6, 9
TASKS = {
    "classify": ("sequence_classifier", masked_cross_entropy),
    "several": ("sequence_classifier", label_cross_entropy),
    "regression": ("sequence_regressor", lambda: squared_error),
    "rerank": ("reranker", lambda: graded_cross_entropy),
    "tag": ("token_classifier", masked_cross_entropy),
    "answer": ("span_extractor", lambda: span_cross_entropy),
    "choose": ("multiple_choice", masked_cross_entropy),
    "embed": ("sentence_embedder", InBatchNegatives),
    "cosine": ("sentence_embedder", CosineError),
}
COUNTS = {"choose": 4, "embed": 3, "cosine": 2}  # rows of an example


def batches_of(task):
    """Inputs of all batches, and what their loss is asked for: ours, and the witness's."""
    rng = np.random.default_rng(list(TASKS).index(task))
    shape = (BATCHES, ROWS, COUNTS[task], T) if task in COUNTS else (BATCHES, ROWS, T)
    mask = (np.arange(T) < rng.integers(4, T + 1, shape[:-1])[..., None]).astype("int32")
    inputs = {
        "token_ids": (rng.integers(5, len(VOCAB), shape) * mask).astype("int32"),
        "segment_ids": (rng.integers(0, 2, shape) * mask).astype("int32"),
        "padding_mask": mask,
    }
    few = (BATCHES, ROWS)
    theirs = {
        "classify": lambda: rng.integers(0, 3, few),
        "several": lambda: rng.integers(0, 2, (*few, 3)),
        "regression": lambda: rng.normal(size=few).astype("float32"),
        "rerank": lambda: rng.random(few).astype("float32"),
        "tag": lambda: np.where((rng.random(shape) < 0.6) & (mask > 0), rng.integers(0, 3, shape), -100),
        "answer": lambda: rng.integers(0, 4, (*few, 2)),
        "choose": lambda: rng.integers(0, 4, few),
        "embed": lambda: np.arange(BATCHES * ROWS * 2).reshape(*few, 2),
        "cosine": lambda: rng.uniform(-1, 1, few).astype("float32"),
    }[task]()
    ours, weights = theirs, None
    if task == "tag":
        ours, weights = np.maximum(theirs, 0), (theirs >= 0).astype("float32")
    elif task == "answer":
        ours = np.where(mask[..., None] > 0, np.arange(T)[:, None] == theirs[..., None, :], -1).astype("int32")
    elif task == "several":
        ours = theirs.astype("float32")
    return inputs, ours, weights, theirs


def our_losses(task, folder):
    head, loss = TASKS[task]
    config = tiny_config(num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    labels = LABELS if keras_bert.HEADS[head].labelled else None
    bundle = keras_bert.create(config, None, head, labels)
    randomize(bundle.model)
    keras_bert.save(bundle, folder / "start")
    inputs, ours, weights, theirs = batches_of(task)
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
    renamed = {names[name]: values.astype("int64") for name, values in inputs.items()}
    np.savez(folder / "batches.npz", y=theirs, **renamed)
    (folder / "steps.json").write_text(json.dumps(STEPS))
    model = siamese(bundle.model, COUNTS[task]) if head == "sentence_embedder" else bundle.model
    model.compile(adamw(warmup_linear(STEPS["peak"], STEPS["warmup"], STEPS["total"])), loss())
    losses = []
    for step in range(STEPS["total"]):
        i = step % BATCHES
        x = {name: values[i] for name, values in inputs.items()}
        model.reset_metrics()
        losses.append(float(model.train_on_batch(x, ours[i], None if weights is None else weights[i])))
    return losses


@pytest.mark.slow
def test_50_steps_have_the_losses_of_torch(tmp_path):
    interpreter = os.environ.get(WITNESS)
    if not interpreter:
        pytest.skip(f"needs {WITNESS}, the interpreter of an environment with torch and transformers")
    losses = {}
    for task in TASKS:
        (tmp_path / task).mkdir()
        losses[task] = our_losses(task, tmp_path / task)
    environment = {"HF_HUB_OFFLINE": "1", "PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    command = [interpreter, str(Path(__file__).with_name("witness_losses.py")), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = json.loads((tmp_path / "losses.json").read_text())
    differences = {task: float(np.abs(np.subtract(losses[task], theirs[task])).max()) for task in TASKS}
    assert all(np.ptp(values) > 0.01 for values in theirs.values())  # they do learn
    assert max(differences.values()) < 1e-4, differences
