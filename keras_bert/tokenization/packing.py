"""Pieces of one or two texts -> [CLS] a [SEP] b [SEP], truncated and padded.

Written once for NumPy, keras.ops and TensorFlow: `ops` has arange, take, where, minimum, maximum, expand_dims,
max, pad, split.
"""

TRUNCATIONS = ("longest_first", "only_second")


def room(max_length, pairs, truncation="longest_first"):
    """Pieces that fit beside [CLS] and [SEP]; `pairs` is None for single texts."""
    if truncation not in TRUNCATIONS:
        raise ValueError(f"`truncation` must be one of {', '.join(TRUNCATIONS)}, got {truncation!r}.")
    special = 2 if pairs is None else 3
    if max_length < special:
        raise ValueError(f"`max_length` must be at least {special}, for [CLS] and [SEP], got {max_length}.")
    return max_length - special


def parts_of(ops, pieces, pairs):
    """One or two (ids, starts, lengths) of `Pieces`; of pairs, the second texts' come after all first ones."""
    ids, starts, lengths = ops.pad(pieces.ids, [[0, 1]]), pieces.row_splits[:-1], pieces.row_splits[1:]
    lengths = lengths - starts
    if pairs is None:
        return [(ids, starts, lengths)]
    return [(ids, *half) for half in zip(ops.split(starts, 2), ops.split(lengths, 2), strict=True)]


def features(ops, parts, max_length, truncation, cls_id, sep_id, pad_id, width=None):
    """Truncates and packs one or two parts; `width` is by default the length of the longest row."""
    first, second = (*parts, None)[:2]
    budget = room(max_length, second, truncation)
    lengths, pair_lengths = truncated(ops, first[2], second and second[2], budget, truncation)
    if width is None:
        # room for [CLS] and [SEP] in a batch without texts too: models cannot take T = 0
        width = ops.maximum(ops.max(ops.pad(packed_width(lengths, pair_lengths), [[0, 1]])), 2)
    second = second and (*second[:2], pair_lengths)
    return pack(ops, (*first[:2], lengths), second, width, cls_id, sep_id, pad_id)


def truncated(ops, lengths, pair_lengths, budget, truncation="longest_first"):
    """Shortens the longer text first, then both alike; with "only_second" the first only where it alone is too long.

    Args:
        lengths, pair_lengths: (B,) int32 pieces of each text; `pair_lengths` may be None.
        budget: pieces that both may have together.

    Returns:
        the two lengths (B,) int32 that stay; the second is None without pairs.
    """
    if pair_lengths is None:
        return ops.minimum(lengths, budget), None
    if truncation == "only_second":
        lengths = ops.minimum(lengths, budget)
        return lengths, ops.minimum(pair_lengths, budget - lengths)
    shorter, longer = ops.minimum(lengths, pair_lengths), ops.maximum(lengths, pair_lengths)
    longer = ops.minimum(longer, ops.maximum(shorter, budget - shorter))
    both = shorter + longer > budget
    shorter, longer = ops.where(both, budget // 2, shorter), ops.where(both, budget - budget // 2, longer)
    swapped = lengths > pair_lengths
    return ops.where(swapped, longer, shorter), ops.where(swapped, shorter, longer)


def packed_width(lengths, pair_lengths):
    """Tokens of each packed row (B,), special ones included."""
    return lengths + 2 if pair_lengths is None else lengths + pair_lengths + 3


def pack(ops, first, second, width, cls_id, sep_id, pad_id):
    """Packs pieces into rows of `width` tokens.

    Args:
        first: (ids (N,) int32 with at least one element, starts (B,), lengths (B,)): row b's pieces are
            ids[starts[b] : starts[b] + lengths[b]]; already truncated, so that every row fits.
        second: the same for the second texts, or None.

    Returns:
        {"token_ids", "segment_ids", "padding_mask"} (B, width) int32.
    """
    position = ops.expand_dims(ops.arange(width), 0)  # (1, T)
    first_end = ops.expand_dims(first[2], 1) + 1  # (B, 1) where the first [SEP] stands
    token_ids = ops.where(position == 0, cls_id, _placed(ops, first, position - 1, sep_id))  # (B, T)
    end = first_end
    if second is not None:
        end = first_end + ops.expand_dims(second[2], 1) + 1
        from_second = _placed(ops, second, position - first_end - 1, sep_id)
        token_ids = ops.where(position > first_end, from_second, token_ids)
    padding_mask = ops.where(position <= end, 1, 0)
    return {
        "token_ids": ops.where(position <= end, token_ids, pad_id),
        "segment_ids": ops.where(position > first_end, padding_mask, 0),
        "padding_mask": padding_mask,
    }


def _placed(ops, pieces, position, sep_id):
    ids, starts, lengths = pieces
    inside = (position >= 0) & (position < ops.expand_dims(lengths, 1))
    source = ops.where(inside, ops.expand_dims(starts, 1) + position, 0)
    return ops.where(inside, ops.take(ids, source), sep_id)
