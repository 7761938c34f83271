"""`tf_model.h5`: what `transformers` up to version 4 saved of its TensorFlow models."""

import contextlib
import re
from pathlib import Path

import h5py
import numpy as np

# what TensorFlow calls a weight -> what torch calls it
PARTS = dict.fromkeys(("kernel", "gamma", "embeddings", "weight"), "weight") | {"beta": "bias", "bias": "bias"}


def open_h5_file(path):
    """Finds the weights of a file, under the names that `transformers` has for torch, and in torch's shapes.

    Returns:
        dict from name to shape, and a function from name to NumPy array.

    Raises:
        ValueError: the file is not HDF5 or not whole, or an array of it lies elsewhere or is larger than the file.
    """
    path = Path(path)
    with _opened(path) as file:
        found = {}
        for group in _layers(file):
            file[group].visititems(lambda name, item: _collect(path, name, item, found))
        places = {name: (item.name, tuple(item.shape)) for name, item in found.items()}
        if sum(item.size * item.dtype.itemsize for item in found.values()) > path.stat().st_size:
            raise ValueError(f"{path} promises more numbers than a file of its size holds.")

    def read(name):
        place, _ = places[name]
        with _opened(path) as file:
            array = np.asarray(file[place])
        return array.T if _is_kernel(place) else array

    return {name: shape[::-1] if _is_kernel(place) else shape for name, (place, shape) in places.items()}, read


@contextlib.contextmanager
def _opened(path):
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a whole HDF5 file of layers: {error}.") from None


def _layers(file):
    """Names of the top groups: the encoder is the first, whose embeddings the later ones repeat."""
    names = [name.decode() if isinstance(name, bytes) else str(name) for name in file.attrs["layer_names"]]
    return [*names, *(name for name in file if name not in names)]


def _collect(path, name, item, found):
    if not isinstance(item, h5py.Dataset):
        return
    if item.external or item.is_virtual:
        raise ValueError(f"{path} must hold its numbers itself, but those of {name} lie in another file.")
    if not np.issubdtype(item.dtype, np.floating):
        raise ValueError(f"{path} must hold floating-point numbers alone, but {name} has {item.dtype}.")
    found.setdefault(_torch_name(path, name), item)


def _torch_name(path, name):
    """`tf_bert_for_x/mlm___cls/layer_._0/dense/kernel:0` -> `cls.layer.0.dense.weight`."""
    plain = re.sub(r"[^/]*___([^/]*)/", r"\1/", name.removesuffix(":0")).replace("_._", "/")
    *levels, part = plain.split("/")[1:] or [""]
    if part not in PARTS:
        raise ValueError(f"Weights in {path} must be called {', '.join(PARTS)}, got {name!r}.")
    return ".".join([*levels, PARTS[part]])


def _is_kernel(place):
    return place.endswith("/kernel:0")
