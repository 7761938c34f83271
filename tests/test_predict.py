"""Answers for texts: their order, their form, and one sentence for what is no text."""

import numpy as np
import pytest

import keras_bert
from keras_bert.tags import tag_spans
from tests.conftest import shared_data
from tests.models import LABELS, VOCAB, randomize, tiny_bundle, tiny_config

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


@pytest.mark.parametrize("head", ["sequence_classifier", "sentence_embedder"])
def test_200_texts_of_mixed_length_answer_as_padded_ones_and_in_their_order(head, monkeypatch):
    """By length in batches: the same answers as all texts padded to 40, from less than half of the positions."""
    bundle, rng = tiny_bundle(head), np.random.default_rng(5)
    words = ["hello", "good", "bad", "film", "你", "the", "worlds", "!"]
    texts = [" ".join(rng.choice(words, size)) for size in rng.geometric(0.12, 200)]
    features = bundle.tokenizer(texts, max_length=40)
    assert features["token_ids"].shape == (200, 40)
    padded = np.asarray(bundle.model.predict(features, batch_size=32, verbose=0))
    real, shapes = bundle.model.predict_on_batch, []

    def watched(features):
        shapes.append(features["token_ids"].shape)
        return real(features)

    monkeypatch.setattr(bundle.model, "predict_on_batch", watched)
    found = keras_bert.predict(bundle, texts)
    if head == "sequence_classifier":
        powers = np.exp(padded - padded.max(axis=1, keepdims=True))
        padded = powers / powers.sum(axis=1, keepdims=True)
        found = np.array([[answer["probabilities"][label] for label in LABELS] for answer in found])
    np.testing.assert_allclose(found, padded, rtol=0, atol=2e-6)  # measured 2e-7
    assert len(np.unique(padded.round(5), axis=0)) > 150  # so that another order would show
    assert sum(rows for rows, _ in shapes) == 200
    assert sum(rows * width for rows, width in shapes) < 200 * 40 / 2


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
    two = keras_bert.HEADS[head].answer.takes in ("pairs", "choices", "contexts")
    assert keras_bert.predict(tiny_bundle(head), [], [] if two else None) == []


@pytest.mark.parametrize("head", ["sequence_regressor", "reranker"])
def test_scores_are_numbers(head):
    bundle = tiny_bundle(head)
    scores = keras_bert.predict(bundle, TEXTS, TEXTS[::-1])
    assert all(type(score) is float for score in scores)
    features = bundle.tokenizer(TEXTS[:1], TEXTS[-1:], max_length=40)
    assert abs(scores[0] - float(bundle.model(features)[0])) < 1e-5


def tagger():
    labels = ["O", "B-A", "I-A", "B-B", "I-B"]
    bundle = keras_bert.create(tiny_config(), keras_bert.Tokenizer(VOCAB), "token_classifier", labels)
    randomize(bundle.model, seed=1)
    return bundle


def test_entities_of_texts():
    bundle = tagger()
    answers = keras_bert.predict(bundle, TEXTS, batch_size=2)
    for text, answer in zip(TEXTS[:-1], answers, strict=False):
        encoding = bundle.tokenizer.encode(text)
        words = sorted(set(encoding.word_ids) - {None})
        assert len(answer["labels"]) == len(answer["words"]) == len(words)
        if len(encoding.ids) <= 40:
            logits = np.asarray(bundle.model(bundle.tokenizer([text])))[0]
            firsts = [encoding.word_ids.index(word) for word in words]
            assert answer["labels"] == [bundle.labels[i] for i in logits[firsts].argmax(axis=-1)]
        for entity in answer["entities"]:
            assert entity["text"] == text[entity["start"] : entity["end"]] != ""
            assert entity["label"] in ("A", "B")
    assert answers[TEXTS.index("")] == {"entities": [], "words": [], "labels": []}


def test_every_given_word_has_a_label():
    words = ["goods", "\u200b", "hello", "the", "film,", "", "a b"] * 9
    (answer,) = keras_bert.predict(tagger(), [words], max_length=12)
    assert answer["words"] == words
    assert {answer["labels"][i] for i in range(63) if i % 7 in (1, 5)} == {"O"}
    spans = tag_spans(answer["labels"])
    joined = " ".join(words)
    assert [entity["label"] for entity in answer["entities"]] == [kind for *_, kind in spans]
    for entity, (start, end, _) in zip(answer["entities"], spans, strict=True):
        begin = len(" ".join(words[:start])) + (start > 0)
        assert (entity["start"], entity["end"]) == (begin, begin + len(" ".join(words[start:end])))
        assert entity["text"] == joined[entity["start"] : entity["end"]]
    assert len(spans) > 1


def test_a_document_has_answers_for_all_its_words():
    """Each token's label is that of the window in which it is farthest from where the text was cut."""
    bundle, rng = tagger(), np.random.default_rng(0)
    text = " ".join(rng.choice(["hello", "goods", "film", ",", "a", "b", "unknown"], 5000))
    (answer,) = keras_bert.predict(bundle, [text], max_length=20, stride=6)
    assert len(answer["labels"]) == len(answer["words"]) == 5000
    windows = bundle.tokenizer.windows(text, None, 20, 6)
    best = {}
    for number, window in enumerate(windows):
        size = len(window.ids) - 2
        for i in range(size):
            token = number * 12 + i
            edge = min(i if number else 99, size - 1 - i if number < len(windows) - 1 else 99)
            best[token] = max(best.get(token, (-1,)), (edge, -number, i + 1))
    encoding = bundle.tokenizer.encode(text)
    chosen = [encoding.word_ids.index(word) - 1 for word in range(40)]
    for word, token in enumerate(chosen):
        _, number, place = best[token]
        ids = np.array([windows[-number].ids])
        logits = np.asarray(bundle.model({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}))
        assert answer["labels"][word] == bundle.labels[logits[0, place].argmax()]
    assert len({-best[token][1] for token in chosen}) > 3


def test_spans_of_contexts():
    bundle, rng = tiny_bundle("span_extractor"), np.random.default_rng(0)
    contexts = [" ".join(rng.choice(["hello", "goods", "film", ",", "a", "b"], n)) for n in (300, 7, 1, 60)]
    questions = ["the ?", "a", "the film " * 30, ""]
    answers = keras_bert.predict(bundle, [*questions, "a"], [*contexts, ""], null_threshold=1e9)
    assert answers[-1]["answer"] is None
    for question, context, answer in zip(questions, contexts, answers, strict=False):
        room = bundle.tokenizer.encode(question).ids[1:-1][:18]
        question = " ".join(bundle.tokenizer.vocab[i] for i in room).replace(" ##", "")
        scores, nulls = [], []
        for window in bundle.tokenizer.windows(question, context, 40, 10):
            ids = {"token_ids": [window.ids], "segment_ids": [window.segment_ids]}
            ids = {name: np.array(values) for name, values in ids.items()}
            logits = np.asarray(bundle.model({**ids, "padding_mask": 0 * ids["token_ids"] + 1}))[0]
            nulls.append(logits[0].sum())
            inside = [i for i, word in enumerate(window.word_ids) if word is not None and window.segment_ids[i]]
            for i in inside:
                ends = [j for j in inside if i <= j < i + 30]
                scores += [(logits[i, 0] + logits[j, 1], window.offsets[i][0], window.offsets[j][1]) for j in ends]
        score, start, end = max(scores, key=lambda found: found[0])
        assert (answer["start"], answer["end"], answer["answer"]) == (start, end, context[start:end])
        assert abs(answer["score"] - score) < 1e-5
        assert abs(answer["null_score"] - min(nulls)) < 1e-5


def test_next_spans_and_no_answer():
    bundle = tiny_bundle("span_extractor")
    (answer,) = keras_bert.predict(bundle, ["the ?"], ["hello film a b " * 9], top=4, null_threshold=1e9)
    scores = [answer["score"], *(other["score"] for other in answer["others"])]
    assert scores == sorted(scores, reverse=True)
    assert len({(span["start"], span["end"]) for span in [answer, *answer["others"]]}) == 4
    (none,) = keras_bert.predict(bundle, ["the ?"], ["hello film a b " * 9], null_threshold=-1e9)
    assert (none["answer"], none["start"], none["end"]) == (None, None, None)
    assert (none["score"], none["null_score"]) == (answer["score"], answer["null_score"])


def test_choices_are_compared():
    bundle = tiny_bundle("multiple_choice")
    texts, choices = ["hello", "the film", ""], [["good", "bad film"], ["a", "b", "c"], ["a", "good"]]
    answers = keras_bert.predict(bundle, texts, choices, batch_size=2)
    for text, given, answer in zip(texts, choices, answers, strict=True):
        features = bundle.tokenizer([text] * len(given), given)
        logits = np.asarray(bundle.model({name: value[None] for name, value in features.items()}))[0]
        expected = np.exp(logits) / np.exp(logits).sum()
        np.testing.assert_allclose(answer["probabilities"], expected, rtol=0, atol=1e-6)
        assert answer["choice"] == expected.argmax()


def test_probabilities_of_the_next_sentence_and_of_replaced_tokens():
    bundle = tiny_bundle("next_sentence")
    logits = np.asarray(bundle.model(bundle.tokenizer(["hello"], ["a film"])))[0]
    (answer,) = keras_bert.predict(bundle, ["hello"], ["a film"])
    assert abs(answer - 1 / (1 + np.exp(logits[1] - logits[0]))) < 1e-6
    bundle = tiny_bundle("replaced_token_detector")
    answers = keras_bert.predict(bundle, ["hello goods", ""])
    assert answers[0]["tokens"] == ["[CLS]", "hello", "good", "##s", "[SEP]"]
    logits = np.asarray(bundle.model(bundle.tokenizer(["hello goods"])))[0]
    np.testing.assert_allclose(answers[0]["probabilities"], 1 / (1 + np.exp(-logits)), rtol=0, atol=1e-6)
    assert len(answers[1]["probabilities"]) == 2


def test_long_texts_by_the_mean_of_their_windows():
    bundle, text = tiny_bundle("sequence_classifier"), "hello film a b " * 30
    windows = bundle.tokenizer.windows(text, None, 40, 5)
    logits = [np.asarray(bundle.model({"token_ids": np.array([window.ids])} | rest(window)))[0] for window in windows]
    expected = np.exp(np.mean(logits, axis=0))
    whole, cut, short = (
        list(keras_bert.predict(bundle, [asked], stride=stride)[0]["probabilities"].values())
        for asked, stride in ((text, 5), (text, None), ("hello", 5))
    )
    np.testing.assert_allclose(whole, expected / expected.sum(), rtol=0, atol=1e-6)
    assert abs(whole[0] - cut[0]) > 1e-4
    assert short == list(keras_bert.predict(bundle, ["hello"])[0]["probabilities"].values())


def rest(window):
    return {"segment_ids": np.zeros((1, len(window.ids)), int), "padding_mask": np.ones((1, len(window.ids)), int)}


def test_fewer_dimensions_have_length_one_again():
    bundle = tiny_bundle("sentence_embedder")
    whole, cut = keras_bert.predict(bundle, ["hello"]), keras_bert.predict(bundle, ["hello"], dimensions=5)
    np.testing.assert_allclose(cut, whole[:, :5] / np.linalg.norm(whole[:, :5]), rtol=0, atol=1e-6)


def test_heads_of_other_families_answer_too():
    """RoBERTa's tokenizer, on the host, has two separators and no segments."""
    tokenizer = keras_bert.tokenization.load_tokenizer(shared_data("vocab/roberta-base"))
    config = tiny_config(vocab_size=tokenizer.vocab_size, pad_token_id=1, position_offset=2, type_vocab_size=1)
    bundle = keras_bert.create(config, tokenizer, "span_extractor")
    randomize(bundle.model)
    context = "The film was good; the end was not. " * 9
    (answer,) = keras_bert.predict(bundle, ["What was good?"], [context], null_threshold=1e9)
    assert answer["answer"] == context[answer["start"] : answer["end"]] != ""
    bundle = keras_bert.create(config, tokenizer, "token_classifier", LABELS)
    words = "The film was good , the end was not .".split() * 9
    (answer,) = keras_bert.predict(bundle, [words])
    assert answer["words"] == words
    assert "O" not in answer["labels"]


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


@pytest.mark.parametrize(
    ("head", "texts", "pairs", "settings", "sentence"),
    [
        ("next_sentence", ["a"], None, {}, "`next_sentence` needs `pairs`, a second text for each."),
        ("span_extractor", ["a"], None, {}, "`span_extractor` needs `pairs`, the context of each question."),
        ("multiple_choice", ["a"], [[]], {}, "`pairs[0]` must be a list of choices, got []."),
        ("multiple_choice", ["a"], ["b"], {}, "`pairs[0]` must be a list of choices, got 'b'."),
        ("multiple_choice", ["a"], [["b", 3]], {}, "`pairs[0]` must be a string, got int."),
        ("token_classifier", ["a"], ["b"], {}, "`token_classifier` takes texts without `pairs`."),
        (
            "token_classifier",
            {"token_ids": np.ones((1, 3), int)},
            None,
            {},
            "`predict` takes texts for a token_classifier, got ids.",
        ),
        (
            "token_classifier",
            ["a"],
            None,
            {"strid": 3},
            "`token_classifier` takes no setting `strid`. Did you mean `stride`?",
        ),
        (
            "token_classifier",
            ["a"],
            None,
            {"stride": 38},
            "`stride` must be below 38 where `max_length` is 40, got 38.",
        ),
        ("span_extractor", ["a"], ["b"], {"stride": 19}, "`stride` must be below 19 where `max_length` is 40, got 19."),
        ("span_extractor", ["a"], ["b"], {"max_length": 3}, "`max_length` must be at least 4 for two texts, got 3."),
        ("span_extractor", ["a"], ["b"], {"top": 0}, "`top` must be a positive integer, got 0."),
        ("span_extractor", ["a"], ["b"], {"null_threshold": "0"}, "`null_threshold` must be a number, got '0'."),
        (
            "sentence_embedder",
            ["a"],
            None,
            {"dimensions": 13},
            "`dimensions` must be at most the embedding's 12, got 13.",
        ),
    ],
)
def test_what_a_head_does_not_take(head, texts, pairs, settings, sentence):
    with pytest.raises(ValueError) as error:
        keras_bert.predict(tiny_bundle(head), texts, pairs, **settings)
    assert str(error.value) == sentence


def test_a_head_without_answers_says_so():
    with pytest.raises(ValueError, match="`predict` needs a head with an answer, got pretraining_model."):
        keras_bert.predict(tiny_bundle("pretraining_model"), ["a"])
