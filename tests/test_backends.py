"""The model under JAX gives what it gives under TensorFlow."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import keras_bert
from keras_bert.checkpoint.families import FAMILIES
from tests.models import model_features, tiny_bundle

UNDER_JAX = """
import sys, numpy as np, keras, keras_bert
assert keras.backend.backend() == "jax"
folder, features, out = sys.argv[1:]
bundle = keras_bert.load(folder)
outputs = bundle.model({key: value for key, value in np.load(features).items()})
outputs = outputs if isinstance(outputs, dict) else {"output": outputs}
np.savez(out, **{key: np.asarray(value) for key, value in outputs.items()})
"""


@pytest.mark.slow
@pytest.mark.parametrize("head", list(FAMILIES["bert"].architectures))
def test_jax_equals_tensorflow(head, tmp_path):
    if find_spec("jax") is None:
        pytest.skip("needs jax, which is not installed")
    bundle = tiny_bundle(head)
    features = model_features(bundle.model, bundle.config)
    keras_bert.save(bundle, tmp_path / "model")
    np.savez(tmp_path / "features.npz", **features)
    arguments = [str(tmp_path / name) for name in ("model", "features.npz", "out.npz")]
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    root = Path(__file__).resolve().parents[1]
    subprocess.run([sys.executable, "-c", UNDER_JAX, *arguments], env=environment, cwd=root, check=True)
    ours = bundle.model(features)
    ours = ours if isinstance(ours, dict) else {"output": ours}
    theirs = np.load(tmp_path / "out.npz")
    assert sorted(ours) == sorted(theirs)
    real = features["padding_mask"][..., None] if head is None else 1
    for name, value in ours.items():
        mask = real if name == "sequence_output" else 1
        assert np.abs(np.asarray(value) * mask - theirs[name] * mask).max() <= 1e-5, name  # measured 2e-6
