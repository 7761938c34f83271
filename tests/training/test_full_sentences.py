import numpy as np
import pytest
import tensorflow as tf

from keras_bert.training.full_sentences import sequence_maker
from keras_bert.training.pairs import tokenize_documents
from tests.training.toy import numbered_documents, tokenizer_for

DOCUMENTS = numbered_documents((9, 1, 30, 2, 17, 1, 41))
TOKENIZER = tokenizer_for(DOCUMENTS)
TOKENIZED = tokenize_documents(DOCUMENTS, TOKENIZER)
T = 40


def rows(epochs, max_length=T, tokenized=TOKENIZED, **options):
    count, make, _ = sequence_maker(tokenized, max_length=max_length, cls_id=2, sep_id=3, pad_id=0, seed=5, **options)
    features = make(
        tf.repeat(tf.cast(epochs, tf.int64), count), tf.tile(tf.range(count, dtype=tf.int64), [len(epochs)])
    )
    return {name: value.numpy() for name, value in features.items()}


def sentence_ids(number):
    return TOKENIZED.token_ids[TOKENIZED.sentence_starts[number] : TOKENIZED.sentence_starts[number + 1]].tolist()


def test_rows_are_whole_sentences_as_many_as_fit():
    features = rows(range(20))
    assert len(features["token_ids"]) > 300
    crossing = 0
    for ids, mask, segments, words, (first, end) in zip(
        *(features[name] for name in ("token_ids", "padding_mask", "segment_ids", "word_ids", "sentences")), strict=True
    ):
        expected, document = [], None
        for number in range(first, end):
            own = np.searchsorted(TOKENIZED.document_starts, number, side="right")
            if document not in (None, own):
                expected.append(3)
                crossing += 1
            document = own
            expected += sentence_ids(number)
        row = [2, *expected, 3]
        assert len(row) <= T
        assert ids.tolist() == row + [0] * (T - len(row))
        assert mask.sum() == len(row)
        assert segments.sum() == 0
        assert ((words >= 0) == (ids > 4)).all()
        assert len(set(words[ids > 4])) == (ids > 4).sum()
        if end < len(TOKENIZED.sentence_starts) - 1:  # the next sentence would not fit
            separator = end in TOKENIZED.document_starts
            assert len(row) + separator + len(sentence_ids(end)) > T
    assert crossing > 0


def test_rows_of_single_documents_are_full_or_end_with_theirs():
    features = rows(range(20), single_documents=True)
    cut = ended = 0
    names = ("token_ids", "padding_mask", "sentences")
    for ids, mask, (first, end) in zip(*(features[name] for name in names), strict=True):
        document = np.searchsorted(TOKENIZED.document_starts, first, side="right")
        assert end <= TOKENIZED.document_starts[document]
        tokens = [token for number in range(first, end) for token in sentence_ids(number)]
        row = [2, *tokens[: T - 2], 3]
        assert ids.tolist() == row + [0] * (T - len(row))
        assert mask.sum() == len(row)
        cut += len(tokens) > T - 2
        ended += len(row) < T
        assert len(row) == T or end == TOKENIZED.document_starts[document]
        assert len(tokens) - len(sentence_ids(end - 1)) < T - 2  # no sentence of which nothing is seen
    assert cut > 100
    assert ended > 30


@pytest.mark.parametrize("options", [{}, {"single_documents": True, "short_probability": 0.3}, {"max_length": 6}])
def test_lengths_are_those_of_the_rows(options):
    count, make, lengths = sequence_maker(
        TOKENIZED, cls_id=2, sep_id=3, pad_id=0, seed=5, **{"max_length": T, **options}
    )
    place = tf.zeros([count], tf.int64) + 3, tf.range(count, dtype=tf.int64)
    np.testing.assert_array_equal(lengths(*place), make(*place)["padding_mask"].numpy().sum(axis=1))


def test_a_sentence_longer_than_the_row_is_cut():
    features = rows(range(3), max_length=6)
    assert (features["padding_mask"].sum(axis=1) <= 6).all()
    long = [i for i, (first, _) in enumerate(features["sentences"]) if len(sentence_ids(first)) > 4]
    assert long
    for i in long:
        assert features["token_ids"][i].tolist() == [2, *sentence_ids(features["sentences"][i, 0])[:4], 3]


def test_short_rows():
    features = rows(range(200), short_probability=0.1, max_length=T)
    full = rows(range(200), max_length=T)
    shorter = features["padding_mask"].sum(axis=1) < full["padding_mask"].sum(axis=1)
    assert 0.07 < shorter.mean() < 0.1  # some budgets are as good as the whole row


def test_epochs_differ_and_read_the_corpus():
    firsts = rows(range(30))["sentences"][:, 0].reshape(30, -1)
    assert len({tuple(row) for row in firsts}) > 25
    assert len(np.unique(firsts)) > 0.9 * (len(TOKENIZED.sentence_starts) - 1)


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"^`max_length` must be at least 4 for \[CLS\] two tokens \[SEP\], got 3\.$"):
        rows([0], max_length=3)
    with pytest.raises(ValueError, match=r"^`short_probability` must be from 0 up to 1, got 1\.$"):
        rows([0], short_probability=1)
    with pytest.raises(ValueError, match=r"^The corpus must hold at least one token, got none\.$"):
        rows([0], tokenized=tokenize_documents([], TOKENIZER))
