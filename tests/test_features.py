"""Encodings of Hugging Face tokenizers become features."""

import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert import features_from_huggingface
from tests.models import tiny_bundle

ROWS = {
    "input_ids": [[2, 5, 3], [2, 3, 0]],
    "token_type_ids": [[0, 1, 1], [0, 0, 0]],
    "attention_mask": [[1, 1, 1], [1, 1, 0]],
}
OURS = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}


def check(features):
    assert set(features) == set(OURS)
    for ours, theirs in OURS.items():
        assert np.asarray(features[ours]).dtype == np.int32
        assert np.array_equal(features[ours], ROWS[theirs])


def test_lists_arrays_and_tensors():
    check(features_from_huggingface(ROWS))
    check(features_from_huggingface({name: np.array(rows, "int64") for name, rows in ROWS.items()}))
    check(features_from_huggingface({name: tf.constant(rows, tf.int64) for name, rows in ROWS.items()}))
    check(features_from_huggingface({**ROWS, "labels": [0, 1], "special_tokens_mask": [[1, 0, 1], [1, 1, 1]]}))


def test_inside_tf_data():
    rows = {name: np.array(value, "int64") for name, value in ROWS.items()}
    (features,) = tf.data.Dataset.from_tensor_slices(rows).batch(2).map(features_from_huggingface)
    check(features)


def test_what_is_left_out():
    features = features_from_huggingface({"input_ids": [[[2, 5, 3]]]})
    assert features["segment_ids"].tolist() == [[[0, 0, 0]]]
    assert features["padding_mask"].tolist() == [[[1, 1, 1]]]


def test_predict_takes_them():
    bundle = tiny_bundle("sequence_classifier")
    assert len(keras_bert.predict(bundle, features_from_huggingface(ROWS))) == 2
    assert bundle.model(features_from_huggingface(ROWS)).shape == (2, 3)


@pytest.mark.parametrize(
    ("encoding", "sentence"),
    [
        (["a text"], "`input_ids` must be in the encoding, got list."),
        ({"token_ids": [[1]]}, "`input_ids` must be in the encoding, got token_ids."),
        ({**ROWS, "position_ids": [[0]]}, "Unknown key `position_ids` in the encoding."),
        ({**ROWS, "atention_mask": []}, "Unknown key `atention_mask` in the encoding. Did you mean `attention_mask`?"),
        (
            {"input_ids": [[1], [1, 2]]},
            "`input_ids` must be integers of the shape (B, T), got rows of different lengths. "
            "Call the tokenizer on a list of texts, with padding=True.",
        ),
        (
            {"input_ids": [1, 2]},
            "`input_ids` must be integers of the shape (B, T), got int64 of the shape (2,). "
            "Call the tokenizer on a list of texts, with padding=True.",
        ),
        (
            {"input_ids": [[1, 2]], "attention_mask": [[1]]},
            "`padding_mask` must have the shape of `token_ids`, (1, 2), got (1, 1).",
        ),
    ],
)
def test_refused(encoding, sentence):
    with pytest.raises(ValueError) as error:
        features_from_huggingface(encoding)
    assert str(error.value) == sentence
