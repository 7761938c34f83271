"""Overlapping windows over long texts, in Python and in graphs. Uses TensorFlow."""

import tensorflow as tf

from keras_bert.tokenization.encoding import Encoding
from keras_bert.tokenization.packing import pack, packed_width, parts_of, room
from keras_bert.tokenization.tensors import ARRAY_OPS


def text_windows(encoding, max_length, stride, max_first=None):
    """Cuts an untruncated `Encoding` into those of windows over its last text.

    Args:
        max_first: most tokens of the first text of a pair, which is cut there; by default it has to fit.
    """
    _check_stride(stride)
    begin, fields = last_text(encoding), vars(encoding).values()
    size = len(encoding.ids) - 1 - begin
    first = [i for i in range(begin) if encoding.word_ids[i] is not None]
    dropped = set(first[max_first:] if max_first is not None else ())
    before = [[field[i] for i in range(begin) if i not in dropped] for field in fields]
    space = max_length - len(before[0]) - 1
    if space <= stride:
        beside = f" beside the first text of {len(first)}" if begin > 1 else ""
        raise ValueError(
            f"`stride` must be below the tokens that a window has room for{beside}, got stride {stride} and "
            f"{max(space, 0)} tokens of room in `max_length` {max_length}."
        )
    windows = []
    for start in range(begin, begin + max(size - stride, 1), space - stride):
        cut = slice(start, min(start + space, begin + size))
        windows.append(Encoding(*(x + field[cut] + field[-1:] for x, field in zip(before, fields, strict=True))))
    return windows


def last_text(encoding):
    """Where the tokens of the last text begin: behind [CLS], in a pair behind the first text."""
    begin = len(encoding.ids) - 1
    while encoding.word_ids[begin - 1] is not None:
        begin -= 1
    return begin


def own_tokens(number, count, size, stride):
    """Gives (begin, end): those of a window's `size` tokens that count here and in no other of a text's windows.

    Of what two windows share, each has the half that is nearer to its middle.

    Args:
        number: of the window, from 0; count: windows of the text.
    """
    return stride // 2 if number else 0, size if number == count - 1 else size - (stride - stride // 2)


def graph_windows(pieces, text_splits, pairs, max_length, stride, max_first, frame):
    """The same of a batch, as tensors: model inputs, and what `Tokenizer.strings_to_windows` says beside them.

    Args:
        pieces: `strings.Pieces`; text_splits: (B + 1,) int32, where each text begins in the flat code points.
        frame: ids of [CLS], [SEP], [PAD].
    """
    _check_stride(stride)
    space = room(max_length, pairs)
    parts = parts_of(ARRAY_OPS, pieces, pairs)
    starts, lengths = parts[-1][1:]
    before = tf.zeros_like(lengths)  # tokens of the first text, in pairs
    if pairs is not None:
        before = parts[0][2] if max_first is None else tf.minimum(parts[0][2], max_first)
    space -= before  # (B,)
    no_room = f"`stride` {stride} must be below the tokens that a window of `max_length` {max_length} has room for."
    with tf.control_dependencies([tf.debugging.assert_greater(space, stride, message=no_room)]):
        step = space - stride
    counts = tf.maximum(lengths - space + step - 1, 0) // step + 1  # windows of each text
    row = tf.repeat(tf.range(tf.size(counts)), counts)  # (W,)
    number = tf.range(tf.size(row)) - tf.gather(tf.cumsum(counts, exclusive=True), row)
    begin = number * tf.gather(step, row)
    ids = parts[0][0]
    places = tf.range(tf.size(ids))
    moved = tf.gather(starts, row) + begin, tf.minimum(tf.gather(lengths, row) - begin, tf.gather(space, row))
    chosen = [(places, *moved)]
    if pairs is not None:
        chosen.insert(0, (places, tf.gather(parts[0][1], row), tf.gather(before, row)))
    first, second = (*chosen, None)[:2]
    widths = packed_width(first[2], second and second[2])
    width = tf.maximum(tf.reduce_max(tf.pad(widths, [[0, 1]])), 2)  # also in a batch without texts
    packed = pack(ARRAY_OPS, first, second, width, -1, -2, -3)  # places of pieces, and what is none
    place, outside = tf.maximum(packed["token_ids"], 0), packed["token_ids"] < 0
    special = tf.gather([0, *frame], tf.maximum(-packed["token_ids"], 0))
    text = tf.expand_dims(row, 1) + packed["segment_ids"] * tf.size(counts)
    origin = tf.gather(text_splits, text)
    offsets = [
        tf.where(outside, 0, tf.gather(tf.pad(values, [[0, 1]]), place) - origin)
        for values in (pieces.starts, pieces.ends)
    ]
    inside = ~outside if pairs is None else ~outside & (packed["segment_ids"] > 0)
    ahead = tf.gather(before, row) + (1 if pairs is None else 2)
    at = tf.range(width) - tf.expand_dims(ahead, 1)  # (W, T) among the window's own text
    kept = tf.where(number > 0, stride // 2, 0), moved[1] - (stride - stride // 2)
    last = tf.equal(number, tf.gather(counts, row) - 1)
    kept = kept[0], tf.where(last, moved[1], kept[1])
    own = inside & (at >= tf.expand_dims(kept[0], 1)) & (at < tf.expand_dims(kept[1], 1))
    words = tf.where(outside, -1, tf.gather(tf.pad(pieces.words, [[0, 1]]), place))
    return packed | {
        "token_ids": tf.where(outside, special, tf.gather(ids, place)),
        "text_index": row,
        "offset_starts": offsets[0],
        "offset_ends": offsets[1],
        "word_ids": words,
        "inside": tf.cast(inside, tf.int32),
        "own": tf.cast(own, tf.int32),
    }


def _check_stride(stride):
    if stride < 0:
        raise ValueError(f"`stride` must be at least 0, got {stride}.")
