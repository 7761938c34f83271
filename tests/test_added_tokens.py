"""Words added to a trained model: every table grows, old rows stay, and every file keeps them."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert
from keras_bert.export import export
from tests.models import VOCAB, randomize, tiny_bundle, tiny_config, tiny_features

WORDS = ["covid", "hello-world"]


@pytest.fixture(scope="module")
def bundles():
    old = tiny_bundle("masked_language_model")
    return old, keras_bert.add_tokens(old, WORDS)


def logits(bundle):
    features = tiny_features(tiny_config()) | {"masked_positions": np.array([[1, 2]] * 3, "int32")}
    return np.asarray(bundle.model(features))


def test_all_tables_grow_and_old_rows_are_bit_identical(bundles):
    old, new = bundles
    assert new.tokenizer.vocab == (*VOCAB, *WORDS)
    assert new.config.vocab_size == len(VOCAB) + 2
    weights = {weight.path: np.asarray(weight.value) for weight in new.model.weights}
    for weight in old.model.weights:
        value, grown = np.asarray(weight.value), weights[weight.path]
        assert np.array_equal(grown[: len(value)] if value.ndim else grown, value), weight.path
    table, bias = weights["token_embedding/embeddings"], weights["mlm_bias/bias"]
    ids = old.tokenizer.encode("hello-world").ids[1:-1]
    assert len(ids) == 3
    np.testing.assert_allclose(table[-1], table[ids].mean(axis=0), atol=1e-7)
    np.testing.assert_allclose(bias[-1], bias[ids].mean(), atol=1e-7)
    assert old.tokenizer.vocab_size == old.config.vocab_size == len(VOCAB)


def test_masked_logits_gain_columns_and_keep_the_others(bundles):
    old, new = bundles
    assert logits(new).shape[-1] == len(VOCAB) + 2
    np.testing.assert_allclose(logits(new)[..., : len(VOCAB)], logits(old), atol=1e-6)


def test_added_words_are_found_in_texts(bundles):
    _, new = bundles
    tokens = new.tokenizer.encode("covid, HELLO hello-world a Covid covids").tokens
    assert tokens == ["[CLS]", "covid", ",", "hello", "hello-world", "a", "covid", "covid", "[UNK]", "[SEP]"]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["saved_model", "tflite"])
def test_exports_know_the_words(tmp_path, format):
    bundle = keras_bert.add_tokens(tiny_bundle("sequence_classifier"), WORDS)
    export(bundle, tmp_path / "out", format)  # compares with Keras
    if format == "saved_model":
        answer = tf.saved_model.load(str(tmp_path / "out")).signatures["serving_default"]
        got = answer(text=tf.constant(["good covid"]))["probabilities"].numpy()
        want = keras_bert.predict(bundle, ["good covid"])[0]["probabilities"]
        np.testing.assert_allclose(got[0], list(want.values()) if isinstance(want, dict) else want, atol=1e-5)


def test_a_masked_model_exports_its_new_columns(bundles, tmp_path):
    assert export(bundles[1], tmp_path / "out", "saved_model")["head"] == "masked_language_model"


def test_keras_files_and_folders_keep_them(bundles, tmp_path):
    _, new = bundles
    new.model.save(tmp_path / "model.keras")
    loaded = dataclasses.replace(new, model=keras.models.load_model(tmp_path / "model.keras"))
    np.testing.assert_array_equal(logits(loaded), logits(new))
    keras_bert.save(new, tmp_path / "folder")
    again = keras_bert.load(tmp_path / "folder")
    assert again.tokenizer.added_tokens == new.tokenizer.added_tokens
    np.testing.assert_allclose(logits(again), logits(new), atol=1e-6)


def test_rows_behind_the_vocabulary_are_used_first():
    old = keras_bert.create(tiny_config(vocab_size=len(VOCAB) + 1), keras_bert.Tokenizer(VOCAB))
    randomize(old.model)
    assert keras_bert.add_tokens(old, WORDS).config.vocab_size == len(VOCAB) + 2
    assert keras_bert.add_tokens(old, WORDS[:1]).config.vocab_size == len(VOCAB) + 1


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["the"], "must be new and each there once, got 'the' again"),
        (["covid", "covid"], "got 'covid' again"),
        (["##covid"], "`tokens` must hold words, got '##covid'"),
        ([" "], "`tokens` must hold words, got ' '"),
    ],
)
def test_bad_tokens_are_named(bundles, tokens, message):
    with pytest.raises(ValueError, match=message):
        keras_bert.add_tokens(bundles[0], tokens)


def test_a_bundle_without_a_tokenizer_is_refused():
    with pytest.raises(ValueError, match="needs a bundle with a `Tokenizer`, got NoneType"):
        keras_bert.add_tokens(keras_bert.create(tiny_config()), ["covid"])
