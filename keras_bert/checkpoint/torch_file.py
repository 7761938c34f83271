"""`pytorch_model.bin` without torch: a reader that can make tensors and nothing else.

Both of torch's forms are read: the zip archive (since 1.6) and the older stream of pickles. A pickle may name only what
`_NAMES` lists; anything else, such as a call that would run code, is refused before it happens.
"""

import collections
import math
import pickle
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np

MAGIC = 0x1950A86A20F9469CFC6C  # begins the older form
PROTOCOL = 1001
DTYPES = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}


def read_torch_file(path):
    """Reads the tensors of a file that `torch.save` wrote from a dict.

    Returns:
        dict from name to NumPy array; bfloat16 as `ml_dtypes.bfloat16`.

    Raises:
        ValueError: the file is broken, holds something else than tensors, or asks for code.
    """
    path = Path(path)
    try:
        tensors = _read_archive(path) if zipfile.is_zipfile(path) else _read_stream(path)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    except Exception as error:  # a broken pickle raises anything
        raise ValueError(f"{path} is not a whole torch file: {type(error).__name__}: {error}.") from None
    if not isinstance(tensors, dict):
        raise ValueError(f"{path} must hold a dict of tensors, got {type(tensors).__name__}.")
    tensors = {name: _made(value) for name, value in tensors.items()}
    other = [name for name, value in tensors.items() if not isinstance(value, np.ndarray)]
    if other:
        raise ValueError(f"{path} must hold tensors alone, but {other[0]!r} is a {type(tensors[other[0]]).__name__}.")
    return tensors


def _read_archive(path):
    with zipfile.ZipFile(path) as archive:
        pickles = [name for name in archive.namelist() if name.endswith("data.pkl")]
        if len(pickles) != 1:
            raise ValueError("the archive must hold one data.pkl.")
        folder = pickles[0].removesuffix("data.pkl")
        total = path.stat().st_size
        for entry in archive.infolist():
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size > total:
                raise ValueError(f"{entry.filename} is compressed, which torch does not do.")
        order = folder + "byteorder"
        if order in archive.namelist() and archive.read(order) != b"little":
            raise ValueError("its numbers are big-endian.")

        def storage(kind, key, numel):
            data = archive.read(f"{folder}data/{key}")
            return _checked(np.frombuffer(data, _dtype(kind)), numel)

        with archive.open(pickles[0]) as file:
            return _Reader(file, storage).load()


def _read_stream(path):
    with open(path, "rb") as file:
        if _Reader(file, None).load() != MAGIC or _Reader(file, None).load() != PROTOCOL:
            raise ValueError("it is neither a zip archive nor a stream that torch wrote.")
        _Reader(file, None).load()  # the writer's machine
        promised = {}

        def storage(kind, key, numel):
            return promised.setdefault(key, _Promise(_dtype(kind), numel))

        tensors = _Reader(file, storage).load()
        for key in _Reader(file, None).load():
            numel = int.from_bytes(file.read(8), "little")
            if key not in promised or numel != promised[key].numel:
                raise ValueError(f"the storage {key} is not the one that was announced.")
            data = file.read(numel * promised[key].dtype.itemsize)
            promised[key].array = _checked(np.frombuffer(data, promised[key].dtype), numel)
        return tensors


class _Promise:
    """A storage whose numbers come later in the stream."""

    def __init__(self, dtype, numel):
        self.dtype, self.numel, self.array = dtype, numel, None


class _Storage(str):
    """The name of a storage class, as a pickle gives it; it makes nothing."""

    __slots__ = ()


_Tensor = collections.namedtuple("_Tensor", "storage offset shape strides")


def _tensor(storage, offset, shape, strides, *_):
    return _Tensor(storage, offset, shape, strides)


def _parameter(tensor, *_):
    return tensor


_NAMES = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_tensor"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    **{("torch", name): _Storage(name) for name in DTYPES},
}


class _Reader(pickle.Unpickler):
    """An unpickler that knows `_NAMES` and refuses the rest."""

    def __init__(self, file, storage):
        super().__init__(file, encoding="utf-8")
        self._storage = storage

    def find_class(self, module, name):
        if (module, name) not in _NAMES:
            raise ValueError(f"it asks for {module}.{name}, and only tensors are read.")
        return _NAMES[module, name]

    def persistent_load(self, saved_id):
        if self._storage is None or not isinstance(saved_id, tuple) or saved_id[0] != "storage":
            raise ValueError("it refers to something that is no storage.")
        _, kind, key, _, numel = saved_id[:5]
        if len(saved_id) > 5 and saved_id[5] is not None:
            raise ValueError("it holds views of storages, which are not read.")
        return self._storage(kind, str(key), numel)


def _dtype(kind):
    if kind not in DTYPES:
        raise ValueError(f"numbers of the kind {kind} are not read.")
    return np.dtype(DTYPES[kind])


def _checked(array, numel):
    if array.size != numel:
        raise ValueError(f"a storage holds {array.size} numbers, {numel} were announced.")
    return array


def _made(value):
    """Gives a `_Tensor` its numbers."""
    if not isinstance(value, _Tensor):
        return value
    array = value.storage.array if isinstance(value.storage, _Promise) else value.storage
    shape, strides = tuple(value.shape), tuple(value.strides)
    plain = all(type(n) is int and n >= 0 for n in (value.offset, *shape, *strides)) and len(shape) == len(strides)
    last = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=False))
    if not plain or array is None or (math.prod(shape) and value.offset + last >= array.size):
        raise ValueError("A tensor of the file reaches outside its storage.")
    size = array.dtype.itemsize
    return np.lib.stride_tricks.as_strided(
        array[value.offset :], shape, [stride * size for stride in strides], writeable=False
    )
