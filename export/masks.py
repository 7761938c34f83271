"""Where masks stand, in `keras.ops`, for graphs."""

from keras import ops

from keras_bert.tokenization.gathering import closed_up


def with_masked_positions(features, mask_id, room=None):
    """Adds `masked_positions` and `is_mask` (B, P) int32 of the masks in `token_ids`, as `asking` does.

    Args:
        room: P; masks behind are left out. By default the most that a text has, or 1.
    """
    found = ops.equal(features["token_ids"], mask_id)
    if room is None:
        counts = ops.sum(ops.cast(found, "int32"), axis=1)
        room = ops.max(ops.pad(counts, (0, 1), constant_values=1))
    places = ops.zeros_like(features["token_ids"]) + ops.arange(ops.shape(found)[1])
    positions = closed_up(found, places, room)
    return features | {"masked_positions": positions, "is_mask": closed_up(found, ops.ones_like(places), room)}
