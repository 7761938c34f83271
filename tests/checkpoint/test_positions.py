"""Shorter and longer position tables: the old rows stay, new ones differ, and config, weights and exports agree."""

import json

import numpy as np
import pytest

import keras_bert
from keras_bert.checkpoint.positions import resized
from keras_bert.export import export
from tests.checkpoint.test_families import family_bundle, features_of, largest
from tests.models import tiny_bundle

TABLE = "embeddings/position_embeddings"


def table_of(bundle):
    return next(np.asarray(weight.value) for weight in bundle.model.weights if weight.path == TABLE)


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
@pytest.mark.parametrize("rows", [9, 40, 100])
def test_other_lengths(family, rows, tmp_path):
    bundle = family_bundle(family, "token_classifier")
    keras_bert.save(bundle, tmp_path / "model")
    other = keras_bert.load(tmp_path / "model", max_position_embeddings=rows)
    assert (other.config.max_position_embeddings, other.report.new_positions) == (rows, max(0, rows - 40))
    kept = min(rows, 40)
    assert np.array_equal(table_of(other)[:kept], table_of(bundle)[:kept])
    assert len(np.unique(table_of(other), axis=0)) == len(table_of(other)) == rows
    features = features_of(bundle)
    assert largest(bundle.model(features), other.model(features)) == 0
    longest = other.config.max_length
    ids = np.full((1, longest), 5, "int32")
    long = {"token_ids": ids, "segment_ids": ids * 0, "padding_mask": ids * 0 + 1}
    assert np.isfinite(other.model(long)).all()
    keras_bert.save(other, tmp_path / "again")
    assert json.loads((tmp_path / "again" / "config.json").read_text())["max_position_embeddings"] == rows
    assert np.array_equal(table_of(keras_bert.load(tmp_path / "again")), table_of(other))


def test_new_rows_by_hand():
    old = np.array([[9.0], [1.0], [2.0], [5.0]])  # the first is no position
    u1 = (2.0 - 0.4 * 1.0) / 0.6
    u = [1.0, u1, (5.0 - 0.4) / 0.6]
    new = resized(old, 8, offset=1)
    assert np.array_equal(new[:4], old)
    expected = [0.4 * u[1] + 0.6 * u[j] for j in (0, 1, 2)] + [0.4 * u[2] + 0.6 * u[0]]
    assert np.abs(new[4:, 0] - expected).max() < 1e-6
    with pytest.raises(ValueError, match="`max_position_embeddings` must be at most 10 here, got 11."):
        resized(old, 11, offset=1)


@pytest.mark.slow
def test_exports_have_the_new_length(tmp_path):
    bundle = tiny_bundle("sequence_classifier")
    keras_bert.save(bundle, tmp_path / "model")
    for rows in (9, 60):
        other = keras_bert.load(tmp_path / "model", max_position_embeddings=rows)
        export(other, tmp_path / f"served-{rows}", format="saved_model")
        text = "the " * 100
        assert keras_bert.predict(other, [text])[0]["label"]
        assert other.tokenizer([text], max_length=other.config.max_length)["token_ids"].shape == (1, rows)


def test_lengths_that_cannot_be(tmp_path):
    keras_bert.save(family_bundle("roberta", None), tmp_path / "model")
    for rows, text in (
        (0, "`max_position_embeddings` must be a positive integer, got 0."),
        ("9", "`max_position_embeddings` must be a positive integer, got '9'."),
        (2, "`position_offset` must be below `max_position_embeddings`, got 2 and 2."),
        (10**6, "`max_position_embeddings` must be at most 1446 here, got 1000000."),
    ):
        with pytest.raises(ValueError) as error:
            keras_bert.load(tmp_path / "model", max_position_embeddings=rows)
        assert str(error.value) == text


def test_a_table_that_is_not_the_configs(tmp_path):
    keras_bert.save(tiny_bundle(None), tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "max_position_embeddings": 39}))
    with pytest.raises(ValueError, match=r"position_embeddings must be \(60, 12\), got \(40, 12\)"):
        keras_bert.load(tmp_path / "model", max_position_embeddings=60)
