"""What all tests share: quiet TensorFlow, seeds, and the way to the shared data."""

import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "data"


def shared_data(name):
    """Path of a file or folder of the shared data; skips the test where it is missing."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs ../shared/data/{name}, which is not here")
    return path


@pytest.fixture(autouse=True)
def _seeds():
    import keras

    keras.utils.set_random_seed(7)
