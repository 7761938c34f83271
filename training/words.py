"""Word boundaries of tokenized texts: by WordPiece's `##`, or by a word segmenter for Chinese."""

import numpy as np
import tensorflow as tf

from keras_bert.tokenization.tensors import code_points_of
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
    if segmenter is None:
        ragged = tokenizer.strings_to_ragged(tf.constant(texts, tf.string))
        ids, lengths = ragged.flat_values.numpy().astype(np.int32), ragged.row_lengths().numpy()
        words = np.arange(len(ids))
    else:
        points, row_splits = code_points_of(tf.constant(texts, tf.string))
        pieces = tokenizer.graph_pieces(points, row_splits)
        ids, lengths = pieces.ids.numpy(), np.diff(pieces.row_splits.numpy()).astype(np.int64)
        borders = []
        for text, start in zip(texts, row_splits.numpy(), strict=False):  # of B texts and B + 1 splits
            borders.extend(start + word_borders(text, segmenter(text)))
        words = np.searchsorted(borders, pieces.starts.numpy(), side="right")
    starts = ~continuation_table(tokenizer.vocab)[ids]
    starts[1:] &= words[1:] != words[:-1]
    starts[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
    return ids, lengths, starts


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
