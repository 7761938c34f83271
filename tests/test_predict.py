"""Answers for texts: their order, their form, and one sentence for what is no text."""

import numpy as np
import pytest

import keras_bert
from tests.models import LABELS, tiny_bundle

TEXTS = ["hello", "", "the good film, the bad film, the good, good film!", "  ", "你好 world", "a" * 5000, "\ud800"]


def test_classifier_answers_in_order():
    bundle = tiny_bundle("sequence_classifier")
    answers = keras_bert.predict(bundle, TEXTS, batch_size=2)
    for text, answer in zip(TEXTS, answers, strict=True):
        alone = keras_bert.predict(bundle, [text])[0]
        assert list(answer["probabilities"]) == LABELS
        assert answer["label"] == alone["label"] == max(answer["probabilities"], key=answer["probabilities"].get)
        # measured 2e-7
        np.testing.assert_allclose(
            list(answer["probabilities"].values()), list(alone["probabilities"].values()), rtol=0, atol=1e-6
        )
        assert abs(sum(answer["probabilities"].values()) - 1) < 1e-6


def test_pairs_are_read():
    bundle = tiny_bundle("sequence_classifier")
    one, other, none = (
        keras_bert.predict(bundle, ["hello"], pairs)[0]["probabilities"]["positive"]
        for pairs in (["good"], ["bad"], None)
    )
    assert len({one, other, none}) == 3


def test_embedder_answers_an_array():
    bundle = tiny_bundle("sentence_embedder")
    vectors = keras_bert.predict(bundle, TEXTS, batch_size=3)
    assert vectors.shape == (len(TEXTS), 12)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=0, atol=1e-6)
    again = keras_bert.predict(bundle, TEXTS[::-1], batch_size=4)[::-1]
    np.testing.assert_allclose(vectors, again, rtol=0, atol=2e-6)


def test_masked_language_model_answers_per_mask():
    bundle = tiny_bundle("masked_language_model")
    answers = keras_bert.predict(bundle, ["hello [MASK]", "no mask", "[MASK] [MASK] world"])
    assert [len(answer) for answer in answers] == [1, 0, 2]
    for mask in answers[0] + answers[2]:
        assert [set(word) for word in mask] == [{"word", "probability"}] * 5
        assert [word["probability"] for word in mask] == sorted((w["probability"] for w in mask), reverse=True)
        assert all(word["word"] in bundle.tokenizer.vocab for word in mask)
    ids = bundle.tokenizer(["hello [MASK]"], allowed_special=("[MASK]",))
    logits = np.asarray(bundle.model({**ids, "masked_positions": np.array([[2]], "int32")}))[0, 0]
    assert answers[0][0][0]["word"] == bundle.tokenizer.vocab[int(logits.argmax())]


def test_ids_are_answered_too():
    bundle = tiny_bundle("sequence_classifier")
    texts = ["hello world", "the good film"]
    ids = keras_bert.predict(bundle, bundle.tokenizer(texts))
    assert [answer["label"] for answer in ids] == [answer["label"] for answer in keras_bert.predict(bundle, texts)]
    alone = keras_bert.predict(bundle, {"token_ids": bundle.tokenizer(texts)["token_ids"]})
    assert alone == ids


def test_no_texts_no_answers():
    assert keras_bert.predict(tiny_bundle("sequence_classifier"), []) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("one text",), "`texts` must be a list of strings, got str."),
        ((["a", 3],), "`texts[1]` must be a string, got int."),
        ((["a", "b"], ["c"]), "`texts` and `pairs` must be equally many, got 2 and 1."),
        ((["a"], None, 32, 513), "`max_length` must be from 3 to the model's 40 positions, got 513."),
        (
            ({"token_ids": np.full((1, 41), 5)},),
            "`token_ids` has 41 tokens a text, the model has 40 positions. Truncate the texts.",
        ),
        (({"segment_ids": np.array([[0]])},), "`token_ids` is missing, got segment_ids."),
        (({"token_ids": np.array([[2.0]])},), "`token_ids` must be integers, got float64."),
        (({"token_ids": np.array([[2, 33, 3]])},), "`token_ids` must be from 0 to 31, got 33."),
        (({"token_ids": np.array([[2, -1, 3]])},), "`token_ids` must be from 0 to 31, got -1."),
        (
            ({"token_ids": np.array([[2, 3]]), "segment_ids": np.array([[0, 2]])},),
            "`segment_ids` must be from 0 to 1, got 2.",
        ),
        (
            ({"token_ids": np.array([[2, 3]]), "padding_mask": np.array([[1]])},),
            "`padding_mask` must have the shape of `token_ids`, (1, 2), got (1, 1).",
        ),
    ],
)
def test_bad_input(arguments, sentence):
    with pytest.raises(ValueError) as error:
        keras_bert.predict(tiny_bundle("sequence_classifier"), *arguments)
    assert str(error.value) == sentence


def test_a_head_without_answers_says_so():
    with pytest.raises(ValueError, match="`predict` needs a head with an answer, got pretraining_model."):
        keras_bert.predict(tiny_bundle("pretraining_model"), ["a"])
