"""Files that lie or attack: refused in one sentence, nothing runs, nothing is allocated that the file does not hold."""


import h5py
import numpy as np
import pytest

import keras_bert
from tests.checkpoint.test_transformers import unpacked


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
