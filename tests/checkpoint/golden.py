"""The zip files of tests/golden, unpacked, and what they expect."""

import zipfile
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def unpack(name, folder):
    with zipfile.ZipFile(GOLDEN / name) as archive:
        archive.extractall(folder)
    return folder


def expected(folder):
    """The features and the outputs in a folder's expected.npz, each a dict."""
    arrays = np.load(folder / "expected.npz")
    return [
        {name.removeprefix(part): arrays[name] for name in arrays if name.startswith(part)}
        for part in ("input/", "output/")
    ]


def outputs(bundle, features):
    """What the bundle's model gives, as a dict of arrays."""
    made = bundle.model({name: features[name].astype("int32") for name in bundle.model.input})
    made = made if isinstance(made, dict) else {"logits": made}
    return {name: np.asarray(value) for name, value in made.items()}


def largest(a, b):
    assert np.shape(a) == np.shape(b)
    return float(np.abs(np.asarray(a, "float64") - np.asarray(b, "float64")).max())
