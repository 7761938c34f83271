"""`.keras` files: loaded in another process with `import keras_bert` alone, of every release so far, and cloned."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.checkpoint.families import FAMILIES
from tests.models import model_features, randomize, tiny_bundle, tiny_config

GOLDEN = Path(__file__).parent / "golden"
RELEASES = sorted(path.name for path in GOLDEN.glob("keras-*.zip"))
TOLERANCE = 1e-5  # measured 2e-7

LOAD = """
import json, sys
import keras_bert, keras
import numpy as np

folder = sys.argv[1]
for name in sys.argv[2:]:
    model = keras.models.load_model(f"{folder}/{name}.keras")
    arrays = np.load(f"{folder}/{name}.npz")
    features = {key.removeprefix("input/"): arrays[key] for key in arrays if key.startswith("input/")}
    outputs = model(features or keras.ops.convert_to_tensor(arrays["text"].tolist()))
    outputs = outputs if isinstance(outputs, dict) else {"": outputs}
    np.savez(f"{folder}/{name}.out.npz", **{f"output/{key}": np.asarray(value) for key, value in outputs.items()})
"""


def load_elsewhere(folder, names):
    """Loads in a process of its own, and compares with the outputs beside each file."""
    command = [sys.executable, "-c", LOAD, str(folder), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for name in names:
        expected, made = np.load(folder / f"{name}.npz"), np.load(folder / f"{name}.out.npz")
        keys = [key for key in expected if key.startswith("output/")]
        assert sorted(made) == sorted(keys)
        assert max(np.abs(expected[key] - made[key]).max() for key in keys) <= TOLERANCE, name


@pytest.mark.parametrize("release", RELEASES)
def test_files_of_releases(release, tmp_path):
    with zipfile.ZipFile(GOLDEN / release) as archive:
        archive.extractall(tmp_path)
    load_elsewhere(tmp_path, [path.stem for path in sorted(tmp_path.glob("*.keras"))])


def test_this_version_has_its_files():
    assert f"keras-{keras_bert.__version__}.zip" in RELEASES


def test_every_head_in_another_process(tmp_path):
    for head in FAMILIES["bert"].architectures:
        model = tiny_bundle(head).model
        features = model_features(model, tiny_config())
        outputs = model(features)
        outputs = outputs if isinstance(outputs, dict) else {"": outputs}
        arrays = {f"input/{key}": value for key, value in features.items()}
        model.save(tmp_path / f"{head}.keras")
        np.savez(tmp_path / f"{head}.npz", **arrays, **{f"output/{k}": np.asarray(v) for k, v in outputs.items()})
    load_elsewhere(tmp_path, [str(head) for head in FAMILIES["bert"].architectures])


@pytest.mark.parametrize("head", ["pretraining_model", "multiple_choice", "sentence_embedder"])
def test_cloned_and_weights_only(head, tmp_path):
    model = tiny_bundle(head).model
    features = model_features(model, tiny_config())
    expected = keras.tree.flatten(model(features))
    copy, described = keras.models.clone_model(model), keras.Model.from_config(model.get_config())
    for other in (copy, described):
        other.set_weights(model.get_weights())
    model.save_weights(tmp_path / "model.weights.h5")
    fresh = tiny_bundle(head, seed=1).model
    fresh.load_weights(tmp_path / "model.weights.h5")
    for other in (copy, described, fresh):
        for a, b in zip(expected, keras.tree.flatten(other(features)), strict=True):
            assert np.array_equal(a, b)


def test_nested(tmp_path):
    """The encoder and a head as layers of somebody's own model, the same encoder twice."""
    encoder = randomize(keras_bert.build_encoder(tiny_config()))
    head = tiny_bundle("token_classifier", seed=3).model
    first, second = (
        {name: keras.Input((None,), dtype="int32", name=f"{name}_{i}") for name in encoder.input} for i in (1, 2)
    )
    a, b = encoder(first)["pooled_output"], encoder(second)["pooled_output"]
    scores = keras.layers.Dense(2, name="scores")(keras.layers.Concatenate()([a, b]))
    model = keras.Model({"first": first, "second": second}, {"scores": scores, "tags": head(first)})
    features = model_features(encoder, tiny_config())
    inputs = {"first": features, "second": {name: value[::-1] for name, value in features.items()}}
    expected = model(inputs)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert len(again.weights) == len(model.weights)
    made = again(inputs)
    assert all(np.array_equal(expected[name], made[name]) for name in expected)


def test_a_file_of_a_later_version_is_refused(tmp_path):
    tiny_bundle(None).model.save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    assert parts["config.json"].count(b'"version": 1') == 3  # the embeddings and two blocks
    parts["config.json"] = parts["config.json"].replace(b'"version": 1', b'"version": 2')
    with zipfile.ZipFile(tmp_path / "later.keras", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(Exception, match="`version` in the layer's config must be 1, got 2. A newer keras3-bert wrote"):
        keras.models.load_model(tmp_path / "later.keras")


def test_a_file_names_no_class_of_tests(tmp_path):
    tiny_bundle("sequence_classifier").model.save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        config = json.loads(archive.read("config.json"))
    modules = set(_strings(config, "module"))
    assert {module for module in modules if module and not module.startswith("keras")} == set()
    registered = {name for name in _strings(config, "registered_name") if name}
    assert all(name.startswith("keras_bert>") for name in registered if ">" in name)


def _strings(value, key):
    if isinstance(value, dict):
        if isinstance(value.get(key), str):
            yield value[key]
        for item in value.values():
            yield from _strings(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, key)
