"""No file knows where it was made: it answers in another folder, without the vocabulary that it was made of."""

import importlib
import sys
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.export import FORMATS
from keras_bert.tokenization import TextPreprocessor
from tests.models import LABELS, VOCAB, randomize, tiny_config, tiny_features


@pytest.fixture
def bundle(tmp_path):
    vocab = tmp_path / "training" / "vocab.txt"
    vocab.parent.mkdir()
    vocab.write_text("\n".join(VOCAB) + "\n", encoding="utf-8")
    made = keras_bert.create(tiny_config(), keras_bert.Tokenizer.from_vocab(vocab), "sequence_classifier", LABELS)
    randomize(made.model)
    return made


def move(folder):
    """Leaves a read-only copy elsewhere as the only one, with no file of the training; gives its place."""
    moved = folder.rename(folder.parent.with_name("elsewhere"))
    (folder.parent / "vocab.txt").unlink()
    folder.parent.rmdir()
    for path in [*moved.rglob("*"), moved]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    return moved


def assert_no_place(folder, tmp_path):
    places = [str(tmp_path), str(Path(keras_bert.__file__).parents[1]), sys.prefix, "/tmp/", "/home/"]
    files = [path for path in folder.rglob("*") if path.is_file()]
    contents = {path.name: path.read_bytes() for path in files}
    for path in files:
        if path.suffix == ".keras":  # compressed
            with zipfile.ZipFile(path) as archive:
                contents |= {name: archive.read(name) for name in archive.namelist()}
    assert len(contents) > 3
    for name, content in contents.items():
        assert not [place for place in places if place.encode() in content], name


@pytest.fixture
def writable_again(tmp_path):
    yield
    for path in tmp_path.rglob("*"):
        path.chmod(0o755)


@pytest.mark.usefixtures("writable_again")
@pytest.mark.parametrize(
    ("format", "options", "signature", "dtype"),
    [
        ("saved_model", {}, "serving_ids", "int32"),
        ("tflite", {"inputs": "ids", "max_length": 7}, "serving_default", "int32"),
        ("onnx", {}, "", "int64"),
    ],
)
def test_exports_know_no_place(format, options, signature, dtype, bundle, tmp_path):  # P23
    module, made = importlib.import_module(FORMATS[format].module), tmp_path / "training" / "made"
    made.mkdir()
    module.write(bundle, made, **options)
    moved = move(made)
    assert_no_place(moved, tmp_path)
    features = tiny_features(bundle.config, batch=1)
    found = module.load(moved)(signature, {name: ids.astype(dtype) for name, ids in features.items()})["logits"]
    np.testing.assert_allclose(found, bundle.model.predict_on_batch(features), rtol=0, atol=1e-5)


@pytest.mark.usefixtures("writable_again")
def test_keras_files_know_no_place(bundle, tmp_path):  # P22, P23
    text = keras.Input((), dtype="string", name="text")
    model = keras.Model(text, bundle.model(TextPreprocessor(bundle.tokenizer, max_length=16)(text)))
    texts = keras.ops.convert_to_tensor(["hello world", "", "商务大床房"])
    expected, made = model(texts), tmp_path / "training" / "made"
    made.mkdir()
    model.save(made / "model.keras")
    moved = move(made)
    assert_no_place(moved, tmp_path)
    np.testing.assert_array_equal(keras.models.load_model(moved / "model.keras")(texts), expected)
