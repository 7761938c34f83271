"""Overlapping windows over long texts, in Python and in graphs. Uses TensorFlow."""

import tensorflow as tf

from keras_bert.tokenization.encoding import framed, rows_of
from keras_bert.tokenization.packing import pack, packed_width, parts_of, room
from keras_bert.tokenization.tensors import ARRAY_OPS


def text_windows(tokenizer, texts, pieces, max_length, stride):
    """`Encoding`s of the windows over the last of one or two texts."""
    *first, (ids, offsets, words) = rows_of(texts, pieces)
    _check_stride(stride)
    space = room(max_length, first or None) - sum(len(part[0]) for part in first)
    if space <= stride:
        beside = f" beside the first text of {len(first[0][0])}" if first else ""
        raise ValueError(
            f"`stride` must be below the tokens that a window has room for{beside}, got stride {stride} and "
            f"{max(space, 0)} tokens of room in `max_length` {max_length}."
        )
    windows = []
    for start in range(0, max(len(ids) - stride, 1), space - stride):
        cut = slice(start, start + space)
        windows.append(framed(tokenizer, *first, (ids[cut], offsets[cut], words[cut])))
    return windows


def graph_windows(pieces, text_splits, pairs, max_length, stride, frame):
    """The same of a batch, as tensors: model inputs, `text_index`, `offset_starts` and `offset_ends`.

    Args:
        pieces: `strings.Pieces`; text_splits: (B + 1,) int32, where each text begins in the flat code points.
        frame: ids of [CLS], [SEP], [PAD].
    """
    _check_stride(stride)
    space = room(max_length, pairs)
    parts = parts_of(ARRAY_OPS, pieces, pairs)
    starts, lengths = parts[-1][1:]
    space = space - parts[0][2] if pairs is not None else tf.fill(tf.shape(lengths), space)  # (B,)
    no_room = f"`stride` {stride} must be below the tokens that a window of `max_length` {max_length} has room for."
    with tf.control_dependencies([tf.debugging.assert_greater(space, stride, message=no_room)]):
        step = space - stride
    counts = tf.maximum(lengths - space + step - 1, 0) // step + 1  # windows of each text
    row = tf.repeat(tf.range(tf.size(counts)), counts)  # (W,)
    begin = (tf.range(tf.size(row)) - tf.gather(tf.cumsum(counts, exclusive=True), row)) * tf.gather(step, row)
    ids = parts[0][0]
    places = tf.range(tf.size(ids))
    moved = tf.gather(starts, row) + begin, tf.minimum(tf.gather(lengths, row) - begin, tf.gather(space, row))
    chosen = [(places, *moved)]
    if pairs is not None:
        chosen.insert(0, (places, tf.gather(parts[0][1], row), tf.gather(parts[0][2], row)))
    first, second = (*chosen, None)[:2]
    width = tf.reduce_max(tf.pad(packed_width(first[2], second and second[2]), [[0, 1]]))
    packed = pack(ARRAY_OPS, first, second, width, -1, -2, -3)  # places of pieces, and what is none
    place, outside = tf.maximum(packed["token_ids"], 0), packed["token_ids"] < 0
    special = tf.gather([0, *frame], tf.maximum(-packed["token_ids"], 0))
    text = tf.expand_dims(row, 1) + packed["segment_ids"] * tf.size(counts)
    origin = tf.gather(text_splits, text)
    offsets = [
        tf.where(outside, 0, tf.gather(tf.pad(values, [[0, 1]]), place) - origin)
        for values in (pieces.starts, pieces.ends)
    ]
    token_ids = tf.where(outside, special, tf.gather(ids, place))
    extra = {"text_index": row, "offset_starts": offsets[0], "offset_ends": offsets[1]}
    return packed | {"token_ids": token_ids} | extra


def _check_stride(stride):
    if stride < 0:
        raise ValueError(f"`stride` must be at least 0, got {stride}.")
