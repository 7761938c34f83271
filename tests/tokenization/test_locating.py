"""Where tokens stand, by fixed shapes, against the tokenizer in Python."""

import itertools
import unicodedata

import numpy as np
import pytest

import keras_bert
from keras_bert.tokenization.locating import located_features
from tests.models import VOCAB
from tests.tokenization import small


def code_points(texts, chars):
    points = np.zeros((len(texts), chars), "int32")
    for row, text in zip(points, texts, strict=True):
        row[: len(text[:chars])] = [ord(char) for char in text[:chars]]
    return points


def in_order(text):
    """Whether no mark moves: canonical order is not made with fixed shapes, which their docstring says."""
    marks = [unicodedata.combining(char) for char in unicodedata.normalize("NFD", text)]
    return all(not b or a <= b for a, b in itertools.pairwise(marks))


@pytest.mark.parametrize("paired", [False, True])
def test_places_are_those_of_the_tokenizer(paired):
    tokenizer = keras_bert.Tokenizer([*VOCAB, "[NEW]"], added_tokens=["[NEW]"])
    texts = ["hello world, goods", "", "  ", "a[NEW]b [NEW]", "é ﬁ Ǆ 你好,", "\U0001f600goods", "a" * 300, "x\x00 y"]
    texts = [text.replace("\x00", " ") for text in texts + small.hard_strings(60, seed=5)]
    texts = [text for text in texts if in_order(text) and len(text) <= 300 and "\x00" not in text]
    assert len(texts) > 40
    firsts = texts[::-1]
    given = code_points(texts, 300)
    points = (code_points(firsts, 300), given) if paired else (given, None)
    found = located_features(tokenizer, *points, length=24, max_first=5)
    found = {name: np.asarray(value) for name, value in found.items()}
    for row, (first, text) in enumerate(zip(firsts, texts, strict=True)):
        (window, *_) = keras_bert.asking.text_windows(
            tokenizer.encode(first, text) if paired else tokenizer.encode(text), 24, 0, 5
        )
        size = len(window.ids)
        offsets = list(zip(found["offset_starts"][row].tolist(), found["offset_ends"][row].tolist(), strict=True))
        assert found["token_ids"][row, :size].tolist() == window.ids, repr(text)
        assert offsets == window.offsets + [(0, 0)] * (24 - size), repr((first, text))
        words = found["word_ids"][row].tolist()
        assert [word >= 0 for word in words] == [word is not None for word in window.word_ids] + [False] * (24 - size)
        assert steps(words[:size]) == steps(window.word_ids), repr(text)
        begin = keras_bert.asking.last_text(window)
        assert found["inside"][row].tolist() == [int(begin <= i < size - 1) for i in range(24)]


def steps(words):
    """How far the numbers of neighbours are apart; None at what is no word."""
    words = [None if word is None or word < 0 else word for word in words]
    return [None if None in pair else pair[1] - pair[0] for pair in itertools.pairwise(words)]
