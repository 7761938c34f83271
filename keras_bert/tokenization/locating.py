"""Code points to model inputs that know where their tokens stand, in `keras.ops`: for exports with fixed shapes."""

import numpy as np
from keras import ops

from keras_bert.tokenization import wordpiece
from keras_bert.tokenization.gathering import take
from keras_bert.tokenization.packing import features
from keras_bert.tokenization.special import special_tables


def located_features(tokenizer, code_points, code_points_pair=None, length=128, max_first=None):
    """Makes one input of each text, or pair, the second text cut; long ones are not cut into windows here.

    Args:
        tokenizer: a `Tokenizer`; code_points, code_points_pair: (B, C) int32, padded with 0.
        length: T, tokens of every row.
        max_first: most tokens of the first text of a pair.

    Returns:
        what `Tokenizer.code_points_to_features` gives, and (B, T) int32: "offset_starts", "offset_ends", places in the
        token's text; "word_ids", -1 outside of the texts; "inside", 1 at tokens of the last text.
    """
    texts = [x for x in (code_points, code_points_pair) if x is not None]
    rows, frame = ops.shape(texts[0])[0], (tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id)
    allowed, size = special_tables(tokenizer, ()), rows * length
    values, parts = [], []
    for number, text in enumerate(texts):
        ids, counts, places = wordpiece.located_pieces(text, tokenizer._tables, tokenizer.unk_id, length, allowed)
        values.append([ids, *places()])
        if number < len(texts) - 1 and max_first is not None:
            counts = ops.minimum(counts, max_first)
        parts.append((ops.arange(2 * size), ops.arange(rows) * length + number * size, counts))
    packed = features(ops, parts, length, "only_second", -1, -2, -3, width=length)  # places, and what is none
    outside, place = packed["token_ids"] < 0, ops.maximum(packed["token_ids"], 0)
    ids, starts, ends, words = (
        take(ops.concatenate(x) if len(x) > 1 else x[0], place) for x in zip(*values, strict=True)
    )
    special = take(np.array([0, *frame], "int32"), ops.maximum(-packed["token_ids"], 0))
    inside = ops.where(outside, 0, packed["segment_ids"] if len(texts) > 1 else 1)
    return packed | {
        "token_ids": ops.where(outside, special, ids),
        "offset_starts": ops.where(outside, 0, starts),
        "offset_ends": ops.where(outside, 0, ends),
        "word_ids": ops.where(outside, -1, words),
        "inside": inside,
    }
