"""The "after" of docs/migration.md runs, on genuine files of the libraries that it comes from."""

import re
from pathlib import Path

import pytest

import keras_bert
from tests.checkpoint.golden import unpack
from tests.models import tiny_bundle

TEXT = (Path(__file__).parents[1] / "docs" / "migration.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    for archive, source, name in (
        ("google.zip", "classifier", "google"),
        ("model_garden.zip", "hub", "saved_model"),
        ("keras_hub.zip", "classifier", "preset"),
    ):
        unpack(archive, tmp_path / archive)
        (tmp_path / archive / source).rename(tmp_path / name)
    keras_bert.save(tiny_bundle("sequence_classifier"), tmp_path / "model")
    bundle = keras_bert.load(tmp_path / "model", labels=["no", "yes", "maybe"])
    keras_bert.save(bundle, tmp_path / "model")
    keras_bert.save(tiny_bundle("sentence_embedder"), tmp_path / "embedder")
    monkeypatch.chdir(tmp_path)


def test_after(folders):
    assert len(BLOCKS) == 8
    for block in BLOCKS:
        exec(compile(block, "docs/migration.md", "exec"), {})
    assert Path("model.keras").is_file()
    assert keras_bert.load("mine").head == "sentence_embedder"
