"""Word boundaries of tokenized texts: by WordPiece's `##`, or by a word segmenter for Chinese."""

import functools

import numpy as np

from keras_bert.tokenization.encoding import pieces_of
from keras_bert.training.word_masking import continuation_table

SEGMENTERS = ("jieba", "spaces")


def tokenize_words(texts, tokenizer, segmenter=None):
    """Tokenizes texts and finds where words begin.

    A token begins a word unless it is a `##` piece, or lies in the same word of the segmenter as the token before.
    Where the segmenter's words are not the text, white space aside, that text's tokens are left to `##`: each Chinese
    character is a word.

    Args:
        texts: list of str.
        segmenter: None, or a function from a text to the list of its words: `jieba.lcut`; `str.split` for text whose
            words are parted by spaces.

    Returns:
        token ids (N,) int32 of all texts, without special tokens; lengths (B,) int64; starts (N,) bool, whether a token
        begins a word.
    """
    pieces = pieces_of(tokenizer, texts, ())
    ids, lengths = pieces.ids, np.diff(pieces.row_splits).astype(np.int64)
    starts = ~continuations(tokenizer.vocab)[ids]
    if segmenter is not None:
        borders, start = [], 0
        for text in texts:
            borders.extend(start + word_borders(text, segmenter(text)))
            start += len(text) + 1  # a line end lies between them
        words = np.searchsorted(borders, pieces.starts, side="right")
        starts[1:] &= words[1:] != words[:-1]
    starts[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
    return ids, lengths, starts


@functools.lru_cache(maxsize=2)
def continuations(vocab):
    """`continuation_table`, made once for a vocabulary (a tuple)."""
    return continuation_table(vocab)


def word_borders(text, words):
    """Where the words begin in `text`, int64; where they are not the text, each character's place."""
    borders, end = [], 0
    for word in words:
        word = word.strip()
        start = text.find(word, end)
        if start < 0 or text[end:start].strip():
            return np.arange(len(text))
        if word:
            borders.append(start)
            end = start + len(word)
    return np.arange(len(text)) if text[end:].strip() else np.array(borders, np.int64)


def find_segmenter(name):
    """The segmenter of a name: None, "jieba" or "spaces"; a function is itself.

    Raises:
        ValueError: the name is another one.
        ImportError: jieba is not installed.
    """
    if name is None or callable(name):
        return name
    if name == "spaces":
        return str.split
    if name != "jieba":
        raise ValueError(f"`segmenter` must be one of {', '.join(SEGMENTERS)} or a function, got {name!r}.")
    try:
        import jieba
    except ImportError:
        raise ImportError('jieba is missing: pip install "keras3-bert[chinese]".') from None
    jieba.setLogLevel("WARNING")  # else it reports on standard error how long its dictionary took
    return jieba.lcut
