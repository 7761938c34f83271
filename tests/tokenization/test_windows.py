"""Windows over long texts: as `tokenizers` cuts them, every token covered, equal in Python and in graphs."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.asking import windows
from keras_bert.tokenization.folder import as_tokenizers
from tests.tokenization import made, small


@pytest.fixture(scope="module")
def tokenizer():
    return made.of_small()


def text_of(count):
    words = ["the", "quick", "un", "café", "!", "中"]
    return " ".join(words[i % len(words)] for i in range(count))


@pytest.mark.parametrize(("max_length", "stride"), [(8, 0), (8, 2), (9, 3), (16, 4), (20, 14), (64, 9)])
def test_windows_are_those_of_tokenizers(tokenizer, max_length, stride):
    reference = as_tokenizers(tokenizer)
    for count in (0, 1, 5, 6, 7, 13, 14, 40):
        text = text_of(count)
        reference.enable_truncation(max_length, stride=stride)
        whole = reference.encode(text)
        windows = tokenizer.windows(text, None, max_length, stride)
        want = [(part.ids, part.offsets, part.word_ids) for part in (whole, *whole.overflowing)]
        assert [(part.ids, part.offsets, part.word_ids) for part in windows] == want
        if max_length - 5 > stride:
            reference.enable_truncation(max_length, stride=stride, strategy="only_second")
            whole = reference.encode("the 中", text)
            windows = tokenizer.windows("the 中", text, max_length, stride)
            want = [(part.ids, part.offsets, part.type_ids) for part in (whole, *whole.overflowing)]
            assert [(part.ids, part.offsets, part.segment_ids) for part in windows] == want


@pytest.mark.parametrize("stride", [0, 1, 128, 10**6])
@pytest.mark.parametrize("document", [0, 1, 5000])
def test_a_question_that_nearly_fills_the_window(tokenizer, stride, document):
    if stride == 0:
        windows = tokenizer.windows(text_of(60), text_of(document), 64, stride)
        covered = {offset for window in windows for offset in window.offsets[62:-1]}
        assert len(windows) == max(document, 1)  # each goes on by its one token
        assert len(covered) == document
        assert all(len(window.ids) <= 64 for window in windows)
    else:
        with pytest.raises(ValueError, match=f"must be below .* first text of 60, got stride {stride} and 1 tokens of"):
            tokenizer.windows(text_of(60), text_of(document), 64, stride)


@pytest.mark.parametrize("paired", [False, True])
def test_windows_in_a_graph_are_those_of_python(tokenizer, paired):
    texts = [text_of(count) for count in (30, 0, 1, 7, 15)] + small.hard_strings(20, seed=2)
    firsts = [text_of(i % 4) for i in range(len(texts))] if paired else None
    spec = tf.TensorSpec([None], tf.string)
    function = tf.function(
        lambda a, b: tokenizer.strings_to_windows(*((b, a) if paired else (a, None)), 12, 2),
        input_signature=[spec, spec],
    )
    got = {k: v.numpy() for k, v in function([t.encode() for t in texts], firsts or texts).items()}
    row = 0
    for index, text in enumerate(texts):
        for window in tokenizer.windows(firsts[index], text, 12, 2) if paired else tokenizer.windows(text, None, 12, 2):
            width = len(window.ids)
            assert got["text_index"][row] == index
            assert got["token_ids"][row, :width].tolist() == window.ids
            assert got["segment_ids"][row, :width].tolist() == window.segment_ids
            offsets = zip(
                got["offset_starts"][row, :width].tolist(), got["offset_ends"][row, :width].tolist(), strict=True
            )
            assert list(offsets) == window.offsets
            for name in ("token_ids", "padding_mask", "offset_starts", "offset_ends"):
                assert not got[name][row, width:].any()
            row += 1
    assert row == len(got["token_ids"])
    if not paired:
        expected = windows(tokenizer, tokenizer.encode_batch(texts), None, 12, 2)
        for name, values in expected.items():
            np.testing.assert_array_equal(got[name], values, name)
        counts = np.bincount(got["text_index"], got["own"].sum(axis=1))
        assert counts.tolist() == [len(tokenizer.encode(text).ids) - 2 for text in texts]  # each token counts once


def test_a_graph_without_room_stops(tokenizer):
    with pytest.raises(tf.errors.InvalidArgumentError, match="`stride` 3 must be below the tokens that a window"):
        tokenizer.strings_to_windows(tf.constant(["the the", "the"]), tf.constant(["un", "un"]), 8, 3)


def test_only_second_texts_are_cut(tokenizer):
    reference = as_tokenizers(tokenizer)
    reference.enable_truncation(12, strategy="only_second")
    firsts, seconds = [text_of(3), text_of(8), text_of(2)], [text_of(30), text_of(5), text_of(4)]
    for features in (
        tokenizer(firsts, seconds, 12, truncation="only_second"),
        tokenizer.strings_to_features(tf.constant(firsts), tf.constant(seconds), 12, truncation="only_second"),
    ):
        for row, pair in enumerate(zip(firsts, seconds, strict=True)):
            want = reference.encode(*pair).ids
            assert np.asarray(features["token_ids"])[row, : len(want)].tolist() == want
    too_long = tokenizer([text_of(30)], ["the"], 12, truncation="only_second")
    assert too_long["padding_mask"].sum() == 12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.windows("the", None, 8, -1), "`stride` must be at least 0, got -1"),
        (lambda t: t.windows("the", None, 8, 6), "got stride 6 and 6 tokens of room in `max_length` 8"),
        (lambda t: t(["a"], truncation="first"), "must be one of longest_first, only_second, got 'first'"),
    ],
)
def test_bad_input_is_named(tokenizer, call, message):
    with pytest.raises(ValueError, match=message):
        call(tokenizer)
