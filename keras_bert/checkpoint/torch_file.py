"""`pytorch_model.bin` without torch: a reader that can make tensors and nothing else.

Both of torch's forms are read: the zip archive (since 1.6) and the older stream of pickles. A pickle is a program; here
the few of its operations that a dict of tensors needs are carried out by `_run`, which can look up no name, call
nothing and set no attribute. Python's own unpickler is not used.
"""

import math
import pickletools
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
        if not isinstance(tensors, dict):
            raise ValueError(f"it must hold a dict of tensors, got {_kind(tensors)}.")
        return {name: _made(name, value) for name, value in tensors.items()}
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    except Exception as error:  # a broken file raises anything
        text = " ".join(str(error).split())
        raise ValueError(f"{path} is not a whole torch file: {type(error).__name__}: {text}.") from None


def _read_archive(path):
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        total = path.stat().st_size
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise ValueError("its archive is compressed, which torch does not do.")
        if sum(entry.file_size for entry in entries) > total:
            raise ValueError("its archive promises more than it holds.")
        pickles = [entry.filename for entry in entries if entry.filename.endswith("data.pkl")]
        if len(pickles) != 1:
            raise ValueError(f"its archive must have one data.pkl, got {len(pickles)}.")
        folder = pickles[0].removesuffix("data.pkl")
        order = folder + "byteorder"
        if order in archive.namelist() and archive.read(order) != b"little":
            raise ValueError("its numbers are big-endian.")
        storages = {}

        def storage(kind, key, numel):
            if key not in storages:
                name = f"{folder}data/{key}"
                if name not in archive.NameToInfo:
                    raise ValueError(f"its archive lacks {name}.")
                storages[key] = _checked(np.frombuffer(archive.read(name), _dtype(kind)), numel)
            if storages[key].dtype != _dtype(kind):
                raise ValueError(f"the storage {key} is of two kinds.")
            return storages[key]

        with archive.open(pickles[0]) as file:
            return _run(file, storage)


def _read_stream(path):
    with open(path, "rb") as file:
        if file.read(2)[:1] != b"\x80":
            raise ValueError("it is neither a zip archive nor a stream that torch wrote.")
        file.seek(0)
        if _run(file) != MAGIC or _run(file) != PROTOCOL:
            raise ValueError("it is neither a zip archive nor a stream that torch wrote.")
        _run(file)  # the writer's machine
        promised = {}

        def storage(kind, key, numel):
            return promised.setdefault(key, _Promise(_dtype(kind), numel))

        tensors = _run(file, storage)
        keys = _run(file)
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise ValueError("its storages are not listed.")
        for key in keys:
            numel = int.from_bytes(file.read(8), "little")
            if key not in promised or numel != promised[key].numel:
                raise ValueError(f"the storage {key} is not the one that was announced.")
            size = numel * promised[key].dtype.itemsize
            if size > path.stat().st_size:
                raise ValueError(f"the storage {key} promises more than the file holds.")
            promised[key].array = _checked(np.frombuffer(file.read(size), promised[key].dtype), numel)
        return tensors


class _Promise:
    """A storage whose numbers come later in the stream."""

    def __init__(self, dtype, numel):
        self.dtype, self.numel, self.array = dtype, numel, None


class _Tensor:
    """A tensor's place in its storage."""

    def __init__(self, storage, offset, shape, strides, *_):
        self.storage, self.offset, self.shape, self.strides = storage, offset, shape, strides


class _Name(str):
    """A name that a pickle looks up; it stands for itself."""

    __slots__ = ()


class _Mark:
    """Where on the stack the items of a list, a tuple or a dict begin."""


_MAKERS = {
    "collections OrderedDict": lambda items=(): {_of(str | int, key): value for key, value in items},
    "torch._utils _rebuild_tensor": _Tensor,
    "torch._utils _rebuild_tensor_v2": _Tensor,
    "torch._utils _rebuild_parameter": lambda tensor, *_: tensor,
}
_KINDS = {f"torch {kind}": kind for kind in DTYPES}
# operations that put their argument on the stack
_VALUES = frozenset(
    """BININT BININT1 BININT2 LONG1 LONG4 INT LONG BINFLOAT BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINSTRING
    SHORT_BINSTRING""".split()
)
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}


def _run(file, storage=None):
    """Carries out a pickle up to its end, and gives what it made.

    Args:
        storage: (kind, key, numel) -> what stands for the storage; None where there are none.
    """
    stack, memo = [], {}

    def since_mark():
        items = []
        while (item := stack.pop()) is not _Mark:
            items.append(item)
        return items[::-1]

    for operation, argument, _ in pickletools.genops(file):
        name = operation.name
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name == "MARK":
            stack.append(_Mark)
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name in ("TUPLE", "LIST"):
            stack.append({"TUPLE": tuple, "LIST": list}[name](since_mark()))
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            count = int(name[-1])
            stack[-count:] = [tuple(stack[-count:])]
        elif name in ("APPEND", "APPENDS"):
            items = since_mark() if name == "APPENDS" else [stack.pop()]
            _of(list, stack[-1]).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = since_mark() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            for key, value in zip(items[::2], items[1::2], strict=True):
                _of(dict, stack[-1])[_of(str | int, key)] = value
        elif name == "GLOBAL":
            stack.append(_looked_up(argument))
        elif name == "STACK_GLOBAL":
            stack[-2:] = [_looked_up(f"{_of(str, stack[-2])} {_of(str, stack[-1])}")]
        elif name == "REDUCE":
            arguments = _of(tuple, stack.pop())
            stack[-1] = _MAKERS[_of(_Name, stack[-1])](*arguments)
        elif name == "BUILD":  # the attributes of a dict, such as _metadata
            stack.pop()
            _of(dict, stack[-1])
        elif name == "BINPERSID":
            stack[-1] = _stored(stack[-1], storage)
        elif name == "STOP":
            return stack.pop()
        elif name not in ("PROTO", "FRAME"):
            raise ValueError(f"its pickle does {name}, which tensors do not need.")
    raise ValueError("its pickle has no end.")


def _looked_up(name):
    if name not in _MAKERS and name not in _KINDS:
        raise ValueError(f"it asks for {'.'.join(name.split())[:80]}, and only tensors are read.")
    return _Name(name)


def _of(kind, value):
    if not isinstance(value, kind):
        raise ValueError(f"its pickle takes {_kind(value)} for something else.")
    return value


def _stored(saved_id, storage):
    if storage is None or not isinstance(saved_id, tuple) or len(saved_id) < 5 or saved_id[0] != "storage":
        raise ValueError("it refers to something that is no storage.")
    _, kind, key, _, numel = saved_id[:5]
    if len(saved_id) > 5 and saved_id[5] is not None:
        raise ValueError("it holds views of storages, which are not read.")
    if not isinstance(kind, _Name) or kind not in _KINDS or type(numel) is not int or not isinstance(key, str | int):
        raise ValueError("it refers to something that is no storage.")
    return storage(_KINDS[kind], str(key), numel)


def _dtype(kind):
    return np.dtype(DTYPES[kind])


def _checked(array, numel):
    if array.size != numel:
        raise ValueError(f"a storage holds {array.size} numbers, {numel} were announced.")
    return array


def _made(name, value):
    """Gives a `_Tensor` its numbers."""
    if not isinstance(value, _Tensor) or not isinstance(name, str):
        raise ValueError(f"it must hold tensors alone, but {name!r} is {_kind(value)}.")
    array = value.storage.array if isinstance(value.storage, _Promise) else value.storage
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name!r} has no numbers.")
    shape, strides = _of(tuple, value.shape), _of(tuple, value.strides)
    if not all(type(n) is int and n >= 0 for n in (value.offset, *shape, *strides)) or len(shape) != len(strides):
        raise ValueError(f"{name!r} has no shape.")
    last = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    # as many numbers as are there: a stride of 0 could make any size of one
    if math.prod(shape) > array.size or (math.prod(shape) and value.offset + last >= array.size):
        raise ValueError(f"{name!r} reaches outside its storage.")
    size = array.dtype.itemsize
    return np.lib.stride_tricks.as_strided(
        array[value.offset :], shape, [stride * size for stride in strides], writeable=False
    )


def _kind(value):
    return f"the name {value}" if isinstance(value, _Name) else f"a {type(value).__name__.lstrip('_').lower()}"
