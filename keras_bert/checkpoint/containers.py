"""The files that hold a Hugging Face folder's weights: safetensors, `pytorch_model.bin`, `tf_model.h5`; also shards."""

import contextlib
import json
import math
import typing
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open

from keras_bert.checkpoint.h5_file import open_h5_file
from keras_bert.checkpoint.torch_file import read_torch_file

DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": ml_dtypes.bfloat16,
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
    "BOOL": "?",
}


class Stored(typing.NamedTuple):
    """Arrays of a file, read one by one.

    Attributes:
        file: for messages.
        shapes: dict from name to shape.
        read: name -> NumPy array.
    """

    file: Path
    shapes: dict
    read: Callable


def open_weights(folder):
    """Opens the first of the known files that the folder has.

    Raises:
        ValueError: there is none, or it is not whole.
    """
    folder = Path(folder)
    for name, opener in CONTAINERS.items():
        if (folder / name).is_file():
            return opener(folder / name)
    raise ValueError(f"{folder} has none of {', '.join(CONTAINERS)}.")


def _safetensors(file):
    try:
        safe_open(file, framework="numpy")  # checks every size and offset
        with open(file, "rb") as opened:
            size = int.from_bytes(opened.read(8), "little")
            header = json.loads(opened.read(size))
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{file} is not a whole safetensors file: {error}.") from None
    header.pop("__metadata__", None)
    other = next((name for name, entry in header.items() if entry["dtype"] not in DTYPES), None)
    if other is not None:
        raise ValueError(f"{file} must hold {', '.join(DTYPES)}, but {other} has {header[other]['dtype']}.")

    def read(name):
        # mapped one by one: pages of the whole file would count as memory until it is closed
        shape, start, dtype = header[name]["shape"], header[name]["data_offsets"][0], DTYPES[header[name]["dtype"]]
        if not math.prod(shape):
            return np.zeros(shape, dtype)
        return np.asarray(np.memmap(file, dtype, "r", offset=8 + size + start, shape=tuple(shape)))

    return Stored(file, {name: tuple(entry["shape"]) for name, entry in header.items()}, read)


def _shards(index):
    """Several files, with an index that tells which name is in which."""
    try:
        places = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        names = sorted(set(places.values()))
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{index} must be JSON with a `weight_map` from names to files.") from None
    for name in names:
        if Path(name).name != name:
            raise ValueError(f"{index} must name files beside it, got {name!r}.")
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        raise ValueError(f"{index.parent} lacks {len(missing)} of {len(names)} shards: {', '.join(missing)}.")
    opener = CONTAINERS[index.name.removesuffix(".index.json")]
    shards = {name: opener(index.parent / name) for name in names}
    lost = [name for name, file in places.items() if name not in shards[file].shapes]
    if lost:
        raise ValueError(f"{index} promises weights that its files do not hold: {', '.join(lost[:5])}.")
    shapes = {name: shards[file].shapes[name] for name, file in places.items()}
    return Stored(index, shapes, lambda name: shards[places[name]].read(name))


def _torch(file):
    arrays = read_torch_file(file)
    return Stored(file, {name: array.shape for name, array in arrays.items()}, arrays.__getitem__)


def _h5(file):
    return Stored(file, *open_h5_file(file))


CONTAINERS = {
    "model.safetensors": _safetensors,
    "model.safetensors.index.json": _shards,
    "pytorch_model.bin": _torch,
    "pytorch_model.bin.index.json": _shards,
    "tf_model.h5": _h5,
    "tf_model.h5.index.json": _shards,
}


@contextlib.contextmanager
def written_json(path):
    """Gives a dict that is written to `path` at the end, in the form that `transformers` writes."""
    values = {}
    yield values
    with open(path, "w", encoding="utf-8") as file:
        json.dump(values, file, ensure_ascii=False, indent=2)
        file.write("\n")
