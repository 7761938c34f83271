import math
import re

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.training.pairs import longest_first, pair_maker, tokenize_documents
from tests.training.toy import numbered_documents, tokenizer_for

SIZES = (9, 1, 30, 2, 17, 1, 41)
DOCUMENTS = numbered_documents(SIZES)
TOKENIZER = tokenizer_for(DOCUMENTS)
TOKENIZED = tokenize_documents(DOCUMENTS, TOKENIZER)
IDS = {"cls_id": 2, "sep_id": 3, "pad_id": 0}
T = 40


def pairs(epochs, seed=5, max_length=T, tokenized=TOKENIZED, **options):
    """All examples of the given epochs, as arrays."""
    count, make, _ = pair_maker(tokenized, max_length=max_length, seed=seed, **IDS, **options)
    features = make(
        tf.repeat(tf.cast(epochs, tf.int64), count), tf.tile(tf.range(count, dtype=tf.int64), [len(epochs)])
    )
    return {name: value.numpy() for name, value in features.items()}


@pytest.mark.parametrize("options", [{}, {"task": "sentence_order", "short_probability": 0.3}, {"max_length": 6}])
def test_lengths_are_those_of_the_rows(options):
    count, make, lengths = pair_maker(TOKENIZED, seed=5, **IDS, **{"max_length": T, **options})
    place = tf.zeros([count], tf.int64) + 3, tf.range(count, dtype=tf.int64)
    np.testing.assert_array_equal(lengths(*place), make(*place)["padding_mask"].numpy().sum(axis=1))


def place(token_id):
    """(document, sentence, word) of a token."""
    return tuple(int(n) for n in re.fullmatch(r"d(\d+)s(\d+)w(\d+)", TOKENIZER.vocab[token_id]).groups())


def runs(features):
    """For each example: A's and B's words as (document, sentence, word)."""
    for ids in features["token_ids"]:
        first, second = np.flatnonzero(ids == 3)
        yield [place(i) for i in ids[1:first]], [place(i) for i in ids[first + 1 : second]]


def all_places(document):
    return [(document, s, w) for s, sentence in enumerate(DOCUMENTS[document]) for w in range(len(sentence.split()))]


def test_labels_recomputed_from_the_words_are_all_right():
    features = pairs(range(30))
    assert len(features["token_ids"]) > 500
    for (a, b), label in zip(runs(features), features["next_sentence_label"], strict=True):
        assert {d for d, _, _ in a} == {a[0][0]}  # each side is of one document ...
        assert {d for d, _, _ in b} == {b[0][0]}
        for side in (a, b):  # ... and an unbroken run of its words
            words = all_places(side[0][0])
            start = words.index(side[0])
            assert words[start : start + len(side)] == side
        assert b[0][2] == 0  # B begins with a sentence
        if label == 0:
            words = all_places(a[0][0])
            assert words[words.index(a[-1]) + 1] == b[0]  # B follows A at once
        else:
            assert a[0][0] != b[0][0]


def test_order_labels_recomputed_from_the_words_are_all_right():
    features = pairs(range(30), task="sentence_order", short_probability=0.1)
    for (a, b), label, sentences in zip(
        runs(features), features["next_sentence_label"], features["sentences"], strict=True
    ):
        first, second = (b, a) if label else (a, b)
        words = all_places(first[0][0])
        start = words.index(first[0])
        assert words[start : start + len(first) + len(second)] == first + second  # one unbroken run, cut in two
        assert second[0][2] == 0
        place = [int(TOKENIZED.document_starts[d] + s) for d, s, _ in (a[0], a[-1], b[0], b[-1])]
        assert sentences[0] <= place[0] <= place[1] < sentences[1]
        assert sentences[2] <= place[2] <= place[3] < sentences[3]


def test_sentence_order_needs_one_document():
    documents = [["one two", "three"]]
    tokenizer = tokenizer_for(documents)
    tokenized = tokenize_documents(documents, tokenizer)
    features = pairs(range(50), tokenized=tokenized, max_length=12, task="sentence_order")
    labelled = zip(features["token_ids"], features["next_sentence_label"], strict=True)
    assert {(*ids[ids > 3].tolist(), int(label)) for ids, label in labelled} == {(5, 6, 7, 0), (7, 5, 6, 1)}


def test_a_tenth_of_the_rows_is_short():
    full, short = (pairs(range(300), short_probability=p)["padding_mask"].sum(axis=1) for p in (0, 0.1))
    filled = full == T
    shorter = filled & (short < T)  # of 2 to 37 tokens wanted, the greatest fill the row as well
    assert filled.sum() > 3000
    assert 0.08 < shorter.sum() / filled.sum() < 0.1
    assert len(np.unique(short[shorter])) > 25


def test_word_ids_tell_words_apart():
    features = pairs(range(3))
    ids, words = features["token_ids"], features["word_ids"]
    assert ((words == -1) == (ids < 5)).all()
    assert (words[:, 1:] != words[:, :-1])[ids[:, 1:] > 4].all()  # this tokenizer has no pieces


@pytest.mark.parametrize("task", ["next_sentence", "sentence_order"])
def test_half_of_the_pairs_are_random_within_3_sigma(task):
    labels = pairs(range(400), task=task)["next_sentence_label"]
    assert len(labels) >= 6000
    assert abs(labels.sum() - len(labels) / 2) <= 3 * math.sqrt(len(labels)) / 2


def test_layout_of_a_pair():
    features = pairs(range(10))
    ids, segments, mask = features["token_ids"], features["segment_ids"], features["padding_mask"]
    assert ids.shape == segments.shape == mask.shape == (len(ids), T)
    assert ids.dtype == segments.dtype == mask.dtype == np.int32
    for row in range(len(ids)):
        length = mask[row].sum()
        assert (mask[row, :length] == 1).all()
        assert (ids[row, length:] == 0).all()
        assert (ids[row, 0], ids[row, length - 1]) == (2, 3)
        first = np.flatnonzero(ids[row] == 3)[0]
        assert 1 < first < length - 2  # neither side is empty
        np.testing.assert_array_equal(segments[row], (np.arange(T) > first) & (np.arange(T) < length))
        assert (ids[row, 1:first] > 4).all()
        assert (ids[row, first + 1 : length - 1] > 4).all()


def test_rows_are_filled_where_the_documents_allow():
    features = pairs(range(20))
    long = np.isin(np.searchsorted(TOKENIZED.document_starts, features["sentences"][:, 2], side="right") - 1, [2, 4, 6])
    lengths = features["padding_mask"].sum(axis=1)
    assert (lengths == T).mean() > 0.6
    assert lengths[long].mean() > 0.9 * T


def test_sentences_name_where_each_side_came_from():
    features = pairs(range(3))
    for (a, b), (a_start, a_end, b_start, b_end) in zip(runs(features), features["sentences"], strict=True):
        for side, start, end in ((a, a_start, a_end), (b, b_start, b_end)):
            document = np.searchsorted(TOKENIZED.document_starts, start, side="right") - 1
            first = TOKENIZED.document_starts[document]
            assert side[0][0] == document
            assert {s for _, s, _ in side} <= set(range(start - first, end - first))
        assert a[-1][1] == a_end - 1 - TOKENIZED.document_starts[a[0][0]]


def test_an_epoch_reads_the_corpus_about_once_and_starts_elsewhere_each_time():
    starts = [tuple(row) for row in pairs(range(40))["sentences"][:, 0].reshape(40, -1)]
    assert len(set(starts)) > 30
    startable = sum(size - 1 for size in SIZES)
    assert len({start for epoch in starts for start in epoch}) > 0.9 * startable
    count = len(starts[0])
    assert 0.8 < count * (T - 3) / len(TOKENIZED.token_ids) < 1.2


def test_same_for_any_batch_and_order_and_other_for_another_seed():
    whole = pairs([3])
    count, make, _ = pair_maker(TOKENIZED, max_length=T, seed=5, **IDS)
    order = np.random.default_rng(0).permutation(count)[:7]
    some = make(tf.constant(3, tf.int64), tf.constant(order, tf.int64))
    for name, value in some.items():
        np.testing.assert_array_equal(value, whole[name][order])
    assert (pairs([3], seed=6)["sentences"] != whole["sentences"]).any(axis=1).mean() > 0.5
    assert (pairs([4])["sentences"] != whole["sentences"]).any(axis=1).mean() > 0.5


def test_two_documents_are_enough():
    documents = [["one two", "three"], ["four"]]
    tokenizer = tokenizer_for(documents)
    features = pairs(range(50), tokenized=tokenize_documents(documents, tokenizer), max_length=12)
    rows = {tuple(ids[ids > 3].tolist()) for ids in features["token_ids"]}
    assert rows == {(5, 6, 7), (5, 6, 8)}  # "one two", then "three" or "four"


@pytest.mark.parametrize("budget", [2, 5, 8])
def test_longest_first_equals_cutting_token_by_token(budget):
    for a in range(1, 20):
        for b in range(1, 20):
            a_kept, b_kept = a, b
            while a_kept + b_kept > budget:
                if a_kept > b_kept:
                    a_kept -= 1
                else:
                    b_kept -= 1
            assert tuple(int(n) for n in longest_first(tf.constant(a), tf.constant(b), budget)) == (a_kept, b_kept)


def test_tokenize_documents_leaves_out_what_is_empty():
    documents = [[], ["a b", "", "c"], ["", ""], ["d"], []]
    tokenized = tokenize_documents(documents, tokenizer_for(documents))
    assert tokenized.token_ids.tolist() == [5, 6, 7, 8]
    assert tokenized.sentence_starts.tolist() == [0, 2, 3, 4]
    assert tokenized.document_starts.tolist() == [0, 2, 3]


@pytest.mark.parametrize(
    ("documents", "max_length", "message"),
    [
        ([["a", "b"]], 9, r"^Next-sentence prediction needs at least 2 documents, got 1\. Put a blank line between"),
        ([], 9, r"^Next-sentence prediction needs at least 2 documents, got 0\."),
        ([["a"], ["b"]], 9, r"^Next-sentence prediction needs a document of at least 2 sentences, got 2 documents of"),
        ([["a", "b"], ["c"]], 4, r"^`max_length` must be at least 5 for \[CLS\] A \[SEP\] B \[SEP\], got 4\.$"),
    ],
)
def test_bad_corpora(documents, max_length, message):
    tokenized = tokenize_documents(documents, tokenizer_for(documents))
    with pytest.raises(ValueError, match=message):
        pair_maker(tokenized, max_length=max_length, seed=0, **IDS)


def test_bad_options():
    with pytest.raises(ValueError, match=r"^`task` must be one of next_sentence, sentence_order, got 'nsp'\.$"):
        pairs([0], task="nsp")
    with pytest.raises(ValueError, match=r"^`short_probability` must be from 0 up to 1, got 1\.5\.$"):
        pairs([0], short_probability=1.5)
    tokenized = tokenize_documents([["a"], ["b"]], tokenizer_for([["a"], ["b"]]))
    with pytest.raises(ValueError, match=r"^Sentence-order prediction needs a document of at least 2 sentences, got 2"):
        pairs([0], tokenized=tokenized, task="sentence_order")
