"""The code of docs/efficient-training.md runs as it stands there."""

import re
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console

import keras_bert
from tests.models import VOCAB, tiny_config

PAGE = Path(__file__).resolve().parents[2] / "docs" / "efficient-training.md"


@pytest.mark.slow
def test_code_blocks(tmp_path, monkeypatch, capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 4
    monkeypatch.chdir(tmp_path)
    deep = tiny_config(num_hidden_layers=4)
    labels = ["negative", "positive"]
    bert = keras_bert.create(deep, keras_bert.Tokenizer(VOCAB), "sequence_classifier", labels)
    keras_bert.save(bert, "TEACHER")
    encoder = keras_bert.create(deep, keras_bert.Tokenizer(VOCAB))
    keras_bert.save(encoder, "MODEL")
    features = bert.tokenizer(["good film", "bad film"])
    answers = np.array([1, 0])
    data = tf.data.Dataset.from_tensors((features, answers))
    known = {
        "keras": keras,
        "keras_bert": keras_bert,
        "bert": bert,
        "features": features,
        "labels": answers,
        "data": data,
        "print_table": Console().print,
    }
    for block in blocks:
        exec(block, known)
    assert "decayed" in capsys.readouterr().out
    for name in ("same", "again", "merged"):
        difference = np.abs(known[name].model(features) - known["bert"].model(features)).max()
        assert difference <= 1e-5  # measured 1e-7
    assert keras_bert.load("small").config.num_hidden_layers == 2
    assert keras_bert.load("out").labels == labels
