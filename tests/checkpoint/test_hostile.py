"""Files that lie or attack: refused in one sentence, nothing runs, nothing is allocated that the file does not hold."""

import collections
import io
import json
import os
import pickle
import subprocess
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

import keras_bert
from keras_bert.checkpoint.torch_file import read_torch_file
from tests.checkpoint.test_transformers import unpacked
from tests.models import tiny_bundle


def sentence(folder):
    with pytest.raises(ValueError) as error:
        keras_bert.load(folder)
    text = str(error.value).replace(str(folder), "FOLDER")
    assert "\n" not in text
    return text


@pytest.fixture
def h5(tmp_path):
    return unpacked("tf_model.zip", "BertForSequenceClassification", tmp_path)


KERNEL = "classifier/tf_bert_for_sequence_classification/classifier/kernel:0"


def test_h5_that_is_cut(h5):
    whole = (h5 / "tf_model.h5").read_bytes()
    for broken in (b"", whole[:100], whole[: len(whole) // 2], b"\x89HDF\r\n\x1a\n" + b"\xff" * 500):
        (h5 / "tf_model.h5").write_bytes(broken)
        assert sentence(h5).startswith("FOLDER/tf_model.h5 is not a whole HDF5 file of layers: ")


def test_h5_whose_numbers_lie_elsewhere(h5):
    (h5 / "secret").write_bytes(b"1234" * 24)
    with h5py.File(h5 / "tf_model.h5", "a") as file:
        del file[KERNEL]
        file.create_dataset(KERNEL, (8, 3), "float32", external=[(str(h5 / "secret"), 0, 96)])
    assert sentence(h5).startswith("FOLDER/tf_model.h5 must hold its numbers itself, but those of tf_bert_for_")
    with h5py.File(h5 / "tf_model.h5", "a") as file:
        del file[KERNEL]
        file[KERNEL] = h5py.ExternalLink(str(h5 / "other.h5"), "/kernel")
    assert "without an array are ['logits/kernel']" in sentence(h5)


def test_h5_that_promises_more_than_it_holds(h5):
    with h5py.File(h5 / "tf_model.h5", "a") as file:
        del file[KERNEL]
        file.create_dataset(KERNEL, (10**6, 10**6), "float32", chunks=(1000, 1000), compression="gzip")
    assert sentence(h5) == "FOLDER/tf_model.h5 promises more numbers than a file of its size holds."


def test_h5_of_something_else(h5):
    with h5py.File(h5 / "tf_model.h5", "a") as file:
        file["classifier/tf_bert_for_sequence_classification/classifier/momentum:0"] = np.zeros(3, "float32")
    assert sentence(h5) == (
        "Weights in FOLDER/tf_model.h5 must be called kernel, gamma, embeddings, weight, beta, bias, "
        "got 'tf_bert_for_sequence_classification/classifier/momentum:0'."
    )
    with h5py.File(h5 / "tf_model.h5", "w") as file:
        file["a"] = 1
    assert sentence(h5).startswith("FOLDER/tf_model.h5 is not a whole HDF5 file of layers: ")


@pytest.fixture(params=["bin", "bin_legacy"])
def torch_folder(request, tmp_path):
    return unpacked("transformers.zip", request.param, tmp_path)


def poison(folder, pickled):
    """Puts a pickle in the place of the one that describes the tensors."""
    file = folder / "pytorch_model.bin"
    whole = file.read_bytes()
    if not zipfile.is_zipfile(file):
        parts = whole.split(pickle.PROTO + b"\x02")
        file.write_bytes((pickle.PROTO + b"\x02").join([*parts[:4], pickled.removeprefix(b"\x80\x02")]))
        return
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            new.writestr(name, pickled if name.endswith("data.pkl") else old.read(name))


class Call:
    """Pickles as a call of `function`, with a state for BUILD where one is given."""

    def __init__(self, function, *arguments, state=None):
        self.reduced = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.reduced


def attacks(marker):
    command = f"touch {marker}"
    python = f"open({str(marker)!r}, 'w')"
    line = f"(S'{command}'\n".encode()
    calls = {
        "system": Call(os.system, command),
        "eval": Call(eval, python),
        "exec": Call(exec, python),
        "open": Call(open, str(marker), "w"),
        "getattr": Call(getattr, "x", "join"),
        "nested": {"weight": Call(collections.OrderedDict, [("a", Call(os.system, command))])},
        "as state": Call(collections.OrderedDict, state={"_metadata": Call(os.system, command)}),
        "Path.touch": Call(Path.touch, marker),
        "subprocess": Call(subprocess.Popen, ["touch", str(marker)]),
    }
    found = {name: pickle.dumps(value, protocol=2) for name, value in calls.items()}
    start, rebuild = b"\x80\x02", b"ctorch._utils\n_rebuild_tensor_v2\n"
    return found | {
        "inst": start + line + b"ios\nsystem\n.",
        "obj": start + b"(cos\nsystem\n" + line[1:] + b"o.",
        "newobj": start + b"cos\nsystem\n" + line + b"t\x81.",
        "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93" + line + b"tR.",
        "reduce of a str": start + line + line + b"tR.",
        "build on a maker": start + rebuild + b"}(S'__code__'\nS'x'\nub}.",
        "slots of a maker": start + rebuild + b"N}(S'__defaults__'\nNu\x86b}.",
        "maker of makers": start + rebuild + b"(" + rebuild + b"tR.",
        "persistent id of text": start + b"Pstorage\n.",
        "persistent id of a call": start + line + b"tQ.",
        "persistent storage of no kind": start + b"(S'storage'\nS'x'\nS'0'\nS'cpu'\nK\x01tQ.",
        "extension": start + b"\x82\x01.",
        "next buffer": b"\x80\x05\x97.",
        "memo of two billion": start + b"}r\xff\xff\xff\x7f0.",
        "text of an exabyte": b"\x80\x04\x8d" + (2**60).to_bytes(8, "little") + b".",
        "marks": start + b"(" * 100 + b".",
        "empty stack": start + b"0.",
        "no mark": start + b"}u.",
        "no end": start + b"}",
        "tuple doubled 60 times as a key": start + b"}K\x01" + b"q\x00h\x00\x86" * 60 + b"K\x02s.",
        "a list": start + b"].",
        "a dict of text": start + b"}S'a'\nS'b'\ns.",
        "a tensor of nothing": start + b"}S'a'\n" + rebuild + b"(NK\x00))tRs.",
    }


@pytest.mark.parametrize("name", attacks(Path("marker")))
def test_hostile_pickles_run_nothing(name, torch_folder, tmp_path):  # P20
    marker = tmp_path / "marker"
    poison(torch_folder, attacks(marker)[name])
    text = sentence(torch_folder)
    assert text.startswith("FOLDER")
    assert not marker.exists()
    assert len(text) < 300


def test_what_is_asked_for_is_named(torch_folder, tmp_path):
    poison(torch_folder, attacks(tmp_path / "marker")["eval"])
    assert sentence(torch_folder) == (
        "FOLDER/pytorch_model.bin cannot be read: it asks for __builtin__.eval, and only tensors are read."
    )


def test_these_attacks_work_on_the_real_unpickler(tmp_path):
    for name in ("system", "nested", "as state", "inst", "obj"):
        marker = tmp_path / name.replace(" ", "_")
        pickle.loads(attacks(marker)[name])
        assert marker.exists(), name


def test_damaged_torch_files_are_refused(torch_folder):
    """Bytes flipped and files cut at random: a sentence, or weights of the right shapes where only numbers changed."""
    file = torch_folder / "pytorch_model.bin"
    whole, rng = file.read_bytes(), np.random.default_rng(0)
    count, messages = len(read_torch_file(file)), []
    for _ in range(150):
        data = bytearray(whole[: rng.integers(1, len(whole))] if rng.random() < 0.2 else whole)
        for place in rng.integers(0, len(data), 4):
            data[place] = rng.integers(0, 256)
        file.write_bytes(data)
        try:
            assert len(read_torch_file(file)) == count
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 50
    assert all(message.startswith(str(file)) and "\n" not in message for message in messages)


def test_archives_that_are_bombs(tmp_path):
    folder = unpacked("transformers.zip", "bin", tmp_path)
    file = folder / "pytorch_model.bin"
    with zipfile.ZipFile(file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, bytes(10**7) if name.endswith("data/0") else data)
    assert sentence(folder).endswith("cannot be read: its archive is compressed, which torch does not do.")
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
        for i in range(200):  # many names for the same bytes
            copy = zipfile.ZipInfo(f"more/{i}")
            copy.header_offset, copy.file_size, copy.compress_size, copy.CRC = 0, 10**4, 10**4, 0
            archive.filelist.append(copy)
    assert sentence(folder).endswith("cannot be read: its archive promises more than it holds.")
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
        archive.writestr("other/data.pkl", b"")
    assert sentence(folder).endswith("cannot be read: its archive must have one data.pkl, got 2.")


@pytest.fixture
def safe(tmp_path):
    keras_bert.save(tiny_bundle("sequence_classifier"), tmp_path / "model")
    return tmp_path / "model"


def with_header(folder, change):
    """Changes the header of a safetensors file and leaves the numbers."""
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + size :])


LIES = {
    "larger shape": lambda entry: entry.update(shape=[10**6, 10**6]),
    "negative shape": lambda entry: entry.update(shape=[-1, 12]),
    "overflowing shape": lambda entry: entry.update(shape=[2**40, 2**40]),
    "end behind the file": lambda entry: entry.update(data_offsets=[entry["data_offsets"][0], 10**15]),
    "begin behind the end": lambda entry: entry.update(data_offsets=entry["data_offsets"][::-1]),
    "another dtype": lambda entry: entry.update(dtype="F64"),
    "no dtype": lambda entry: entry.update(dtype="object"),
    "no offsets": lambda entry: entry.pop("data_offsets"),
}


@pytest.mark.parametrize("lie", LIES)
def test_headers_that_lie(lie, safe):
    with_header(safe, lambda header: LIES[lie](header["classifier.weight"]))
    assert sentence(safe).startswith("FOLDER/model.safetensors is not a whole safetensors file: ")


def test_headers_of_any_length(safe):
    file = safe / "model.safetensors"
    whole = file.read_bytes()
    for size in (0, 1, len(whole), 2**31, 2**63, 2**64 - 1):
        file.write_bytes(size.to_bytes(8, "little") + whole[8:])
        assert sentence(safe).startswith("FOLDER/model.safetensors is not a whole safetensors file: ")
    for end in (1, 7, 8, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:end])
        assert sentence(safe).startswith("FOLDER/model.safetensors is not a whole safetensors file: ")
