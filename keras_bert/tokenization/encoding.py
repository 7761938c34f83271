"""Texts in Python: lists of strings to flat code points, and their pieces to `Encoding`s. Uses TensorFlow."""

import dataclasses
import itertools

import numpy as np
import tensorflow as tf

from keras_bert.tokenization.special import checked_special
from keras_bert.tokenization.tensors import Pieces


@dataclasses.dataclass(frozen=True)
class Encoding:
    """One text, or a pair, as tokens with [CLS] and [SEP].

    Attributes:
        ids, tokens: token ids and their strings.
        offsets: half-open places in Unicode code points of the text, (0, 0) for [CLS] and [SEP].
        word_ids: number of the word in its text, None for [CLS] and [SEP].
        segment_ids: 0 in the first text, 1 in the second.
    """

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    word_ids: list[int | None]
    segment_ids: list[int]


def checked_texts(texts, pairs):
    """All texts in one list, the second ones of pairs after the first ones."""
    for name, values in (("texts", texts), ("pairs", pairs)):
        if isinstance(values, (str, bytes)):
            raise ValueError(f"`{name}` must be a list of strings, got one string.")
        for value in () if values is None else values:
            if not isinstance(value, (str, bytes)):
                raise ValueError(f"`{name}` must hold strings, got {type(value).__name__}.")
    if pairs is None:
        return list(texts)
    if len(texts) != len(pairs):
        raise ValueError(f"`texts` and `pairs` must have equal lengths, got {len(texts)} and {len(pairs)}.")
    return [*texts, *pairs]


def flat_code_points(texts):
    """Code points of all texts, a line end after each: int32 (N,) and row_splits (B + 1,)."""
    texts = _decoded(texts)
    joined = "".join(f"{text}\n" for text in texts).encode("utf-32-le", "surrogatepass")
    splits = np.cumsum([0] + [len(text) + 1 for text in texts], dtype="int32")
    return np.frombuffer(joined, "int32"), splits


def pieces_of(tokenizer, texts, allowed_special):
    """`Pieces` of a list of texts as NumPy arrays, by a function that is traced once."""
    key = ("function", checked_special(allowed_special, tokenizer.token_ids))
    if key not in tokenizer.caches:
        flat = tf.TensorSpec([None], tf.int32)
        tokenizer.caches[key] = tf.function(
            lambda code_points, splits: tokenizer.graph_pieces(code_points, splits, key[1]),
            [flat, flat],
            autograph=False,
        )
    pieces = tokenizer.caches[key](*flat_code_points(texts))
    return Pieces(*(tensor.numpy() for tensor in pieces))


def encodings(tokenizer, texts, pieces, paired):
    """Frames the pieces of `texts` in [CLS] and [SEP]; the second half of `texts` are the second ones of pairs."""
    rows = rows_of(texts, pieces)
    half = len(rows) // 2
    framed_rows = zip(rows[:half], rows[half:], strict=True) if paired else zip(rows)
    return [framed(tokenizer, *parts) for parts in framed_rows]


def rows_of(texts, pieces):
    """Per text: lists of ids, offsets and word numbers."""
    splits = pieces.row_splits.tolist()
    text_starts = np.cumsum([0] + [len(text) + 1 for text in _decoded(texts)])
    rows = []
    for row, (start, end) in enumerate(itertools.pairwise(splits)):
        starts, ends = (x[start:end] - text_starts[row] for x in (pieces.starts, pieces.ends))
        words = pieces.words[start:end]
        offsets = list(zip(starts.tolist(), ends.tolist(), strict=True))
        rows.append((pieces.ids[start:end].tolist(), offsets, (words - words[:1]).tolist()))
    return rows


def framed(tokenizer, *parts):
    """Puts [CLS] and [SEP] round one or two rows of `rows_of`."""
    ids, offsets, words, segment_ids = [tokenizer.cls_id], [(0, 0)], [None], [0]
    for segment, (part_ids, part_offsets, part_words) in enumerate(parts):
        ids += [*part_ids, tokenizer.sep_id]
        offsets += [*part_offsets, (0, 0)]
        words += [*part_words, None]
        segment_ids += [segment] * (len(part_ids) + 1)
    return Encoding(ids, [tokenizer.vocab[i] for i in ids], offsets, words, segment_ids)


def _decoded(texts):
    return [text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in texts]
