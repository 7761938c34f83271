"""Models by their id on the Hugging Face hub; the hub is played by a function, since tests have no network."""

import sys
import types

import pytest

import keras_bert
from keras_bert.checkpoint import sources
from tests.models import tiny_bundle


def hub(monkeypatch, download):
    module = types.ModuleType("huggingface_hub")
    module.snapshot_download = download
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)


def test_a_model_by_its_id(tmp_path, monkeypatch):
    keras_bert.save(tiny_bundle("sequence_classifier"), tmp_path / "model")
    asked = []

    def download(name, allow_patterns):
        asked.append((name, allow_patterns))
        return str(tmp_path / "model")

    hub(monkeypatch, download)
    assert keras_bert.load("someone/model").head == "sequence_classifier"
    assert asked[0] == ("someone/model", ["*.json", "*.txt", "*.safetensors"])
    assert sources.kind_of("someone/model") == "huggingface"
    for file in (tmp_path / "model").glob("*.safetensors"):
        file.unlink()
    asked.clear()
    with pytest.raises(ValueError, match="has none of "):
        keras_bert.load("someone/model")
    assert [patterns[-1] for _, patterns in asked][:3] == ["*.safetensors", "pytorch_model*.bin", "tf_model.h5"]


def test_no_network_and_no_extra(monkeypatch):
    def download(name, allow_patterns):
        raise OSError("We couldn't connect.\nCheck your connection.")

    hub(monkeypatch, download)
    with pytest.raises(ValueError) as error:
        keras_bert.load("someone/gone")
    assert str(error.value) == "someone/gone is neither a folder nor a model that the hub gives: We couldn't connect."
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r'^someone/gone is no folder, .*: pip install "keras3-bert\[hub\]"\.$'):
        keras_bert.load("someone/gone")


def test_folders_are_not_asked_for(tmp_path, monkeypatch):
    def download(name, allow_patterns):
        raise AssertionError

    hub(monkeypatch, download)
    keras_bert.save(tiny_bundle(None), tmp_path / "models" / "mine")
    monkeypatch.chdir(tmp_path)
    assert keras_bert.load("models/mine").head is None
    with pytest.raises(ValueError, match="gone is not a folder"):
        keras_bert.load(tmp_path / "gone")
