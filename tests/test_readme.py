"""The README's code runs as it stands there, in both languages."""

import re
from pathlib import Path

import pytest

import keras_bert
from keras_bert.export import export
from tests.models import tiny_bundle

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("README.md", "folder-with-config.json"),
        pytest.param("README.zh.md", "含有 config.json 的目录", marks=pytest.mark.slow),
    ],
)
def test_code_blocks(name, place, tmp_path, monkeypatch, capsys):
    train, tflite = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    keras_bert.save(tiny_bundle("masked_language_model"), tmp_path / "model")
    assert train.count(place) == 1
    # the tiny model has 40 positions
    known = {}
    exec(train.replace(place, "model").replace("max_length=128", "max_length=40"), known)
    assert "'format': 'saved_model'" in capsys.readouterr().out
    assert (tmp_path / "served" / "1" / "saved_model.pb").is_file()
    assert keras_bert.load("reviews").labels == known["bert"].labels
    export(known["bert"], "tflite", format="tflite")
    exec(tflite, {})
    assert "probabilities" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_no_place_is_left_open(name):
    assert "@@" not in (ROOT / name).read_text(encoding="utf-8")


def test_commands_exist():
    from typer.main import get_command

    from keras_bert_cli.main import app

    commands = get_command(app).commands
    for name in ("README.md", "README.zh.md"):
        used = re.findall(r"^keras-bert (\S+)", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
        assert {"train", "predict", "export", "pretrain"} <= set(used) <= set(commands)
