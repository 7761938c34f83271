"""Answers for texts: their order, their form, and one sentence for what is no text."""

import numpy as np
import pytest

import keras_bert
from tests.models import LABELS, VOCAB, tiny_bundle, tiny_config

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


@pytest.mark.parametrize("head", [name for name, head in keras_bert.HEADS.items() if head.answer])
def test_no_texts_no_answers(head):
    assert keras_bert.predict(tiny_bundle(head), []) == []


@pytest.mark.parametrize("head", ["sequence_regressor", "reranker"])
def test_scores_are_numbers(head):
    bundle = tiny_bundle(head)
    scores = keras_bert.predict(bundle, TEXTS, TEXTS[::-1])
    assert all(type(score) is float for score in scores)
    features = bundle.tokenizer(TEXTS[:1], TEXTS[-1:], max_length=40)
    assert abs(scores[0] - float(bundle.model(features)[0])) < 1e-5


class Column:
    """A table's column whose rows have kept the numbers of another order, as after a shuffle."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return iter(self.values)

    def __getitem__(self, number):
        return self.values[-1 - number]


def test_columns_are_read_in_their_order():
    bundle = tiny_bundle("sentence_embedder")
    texts = ["hello", "the good film", "你好 world"]
    np.testing.assert_array_equal(keras_bert.predict(bundle, Column(texts)), keras_bert.predict(bundle, texts))


def test_positions_of_masks_are_checked():
    features = {"token_ids": np.array([[2, 4, 3]]), "masked_positions": np.array([[1, 77]])}
    with pytest.raises(ValueError, match="`masked_positions` must be from 0 to 2, got 1 to 77."):
        keras_bert.predict(tiny_bundle("masked_language_model"), features)


def test_ids_of_a_model_without_segments():
    config = tiny_config(model_type="distilbert", type_vocab_size=0)
    bundle = keras_bert.create(config, keras_bert.Tokenizer(VOCAB), "sequence_classifier", LABELS)
    assert len(keras_bert.predict(bundle, bundle.tokenizer(["a", "b"], ["c", "c"]))) == 2


@pytest.mark.parametrize("label", ["a\nb", "x\u2028y", "", "\ud800"])
def test_labels_that_are_no_line(label):
    with pytest.raises(ValueError, match="A label must be one line of text"):
        keras_bert.create(tiny_config(), None, "sequence_classifier", ["good", label])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((["a"], None, 0), "`batch_size` must be a positive integer, got 0."),
        (({"token_ids": np.zeros((1, 0), int)},), "`token_ids` must have at least one token a text, got none."),
        (
            ({"token_ids": np.array([[2, 3]])}, ["a"]),
            "`pairs` go with texts; with ids, `segment_ids` tell the second text.",
        ),
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
