"""Uses TensorFlow. Several short sequences in one row: which ones, by best fit, and the rows themselves.

What goes together is planned for windows of consecutive examples, each window by itself. So a row is a function of
(seed, window), and the rows after any place can be had without those before it.
"""

import tensorflow as tf

from keras_bert.training.hashing import draw, example_key, stream

WINDOW = 1024  # examples: so many that the last, half-empty rows of a window count little


def plan_rows(lengths, row_length, slots):
    """Best fit, longest first: each sequence goes to the fullest row that has room for it.

    Args:
        lengths: (W,) int32, from 1 to `row_length`.
        row_length: T.
        slots: S, the most sequences of a row.

    Returns:
        (R, S) int64, numbers of sequences in each row, 0 to W - 1, and then -1.
    """
    count = tf.size(lengths)
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    sizes, _, counts = tf.unique_with_counts(tf.gather(lengths, order))  # the longest first

    def put(i, room, used, places):
        """Puts all sequences of one length: the fullest row takes as many as it can, then the next one does."""
        size = sizes[i]
        # No more rows than sequences are needed; of equals the first row comes first.
        fits = (room >= size) & (used < slots)
        turn = tf.math.top_k(tf.where(fits, row_length - room, -1), counts[i]).indices
        holds = tf.gather(tf.minimum(room // size, slots - used), turn)
        reached = tf.cumsum(holds)
        item = tf.range(counts[i])
        place = tf.searchsorted(reached, item, side="right")
        row = tf.gather(turn, place)
        slot = tf.gather(used, row) + item - tf.gather(reached - holds, place)
        taken = tf.math.unsorted_segment_sum(tf.ones_like(row), row, count)
        return i + 1, room - taken * size, used + taken, places.write(i, tf.stack([row, slot], axis=1))

    places = tf.TensorArray(tf.int32, tf.size(sizes), infer_shape=False, element_shape=[None, 2])
    start = (0, tf.fill([count], row_length), tf.zeros([count], tf.int32), places)
    loop = tf.while_loop(lambda i, *_: i < tf.size(sizes), put, start, parallel_iterations=1)
    rows = tf.math.count_nonzero(loop[2], dtype=tf.int32)
    return tf.scatter_nd(loop[3].concat(), tf.cast(order, tf.int64) + 1, [rows, slots]) - 1


def window_planner(lengths, row_length, slots, seed):
    """Plans the rows of windows of `WINDOW` examples.

    Args:
        lengths: from numbers of examples (W,) int64 to (W,) int32.
        seed: decides in which order a window's rows come.

    Returns:
        A function from the number of a window, and of all examples, both () int64, to (R, S) int64: numbers of examples
        and then -1.
    """

    def plan(number, examples):
        first = number * WINDOW
        numbers = tf.range(first, tf.minimum(first + WINDOW, examples))
        rows = plan_rows(lengths(numbers), row_length, slots)
        rows = tf.where(rows < 0, rows, rows + first)
        # Longest first would make some batches of long sequences and others of short ones.
        key = stream(example_key(seed, 0, rows[:, 0]), "packing/order")
        order = tf.argsort(tf.cast(draw(key, 0), tf.int64), stable=True)
        return tf.ensure_shape(tf.gather(rows, order), [None, slots])

    return plan


def row_layout(starts, lengths, row_length):
    """Where the tokens of packed rows come from.

    Args:
        starts: (B, S) int32 or int64, where each sequence begins in a flat array.
        lengths: (B, S) of the same type, 0 in unused slots, which come last.

    Returns:
        source (B, T) of that type, each token's place in the flat array, 0 at padding; and what `packed_model` takes:
        "sequence_ids" (B, T) int32, 1, 2, ... and 0 at padding, "sequence_starts" (B, S) int32, 0 in unused slots.
    """
    ends = tf.cumsum(lengths, axis=1)
    begins = ends - lengths
    position = tf.range(row_length, dtype=lengths.dtype)[None, :]  # (1, T)
    slot = tf.searchsorted(ends, tf.repeat(position, tf.shape(ends)[0], axis=0), side="right")  # (B, T)
    real = position < ends[:, -1:]
    shift = tf.gather(starts - begins, tf.where(real, slot, 0), batch_dims=1)
    source = tf.where(real, position + shift, 0)
    return source, {
        "sequence_ids": tf.where(real, slot + 1, 0),
        "sequence_starts": tf.cast(tf.where(lengths > 0, begins, 0), tf.int32),
    }


def pack_masked(features, numbers, row_length, max_predictions, pad_id):
    """Packs masked examples into rows.

    Args:
        features: dict as `mask_tokens` gives it, of the E examples of `numbers`, row by row; (E, T) and (E, P).
        numbers: (B, S) int64, -1 in unused slots; only which ones are used counts here.
        max_predictions: P of the rows; what is chosen beyond it stays corrupted and is not predicted.

    Returns:
        dict: "token_ids", "segment_ids" (B, T) int32 and what `row_layout` gives; "masked_positions", "labels" (B, P)
        int32 and "weights" (B, P) float32; "sequence_weights" (B, S) float32, 1 where there is a sequence, and
        "next_sentence_label" (B, S) int32 where `features` have it.
    """
    used = numbers >= 0
    rows = tf.shape(numbers)[0]
    width = tf.shape(features["token_ids"])[1]
    lengths = tf.reduce_sum(features["padding_mask"], axis=1)  # (E,)
    slots = tf.where(used)  # (E, 2)
    lengths = tf.scatter_nd(slots, lengths, tf.shape(numbers, tf.int64))  # (B, S)
    example = tf.cumsum(tf.cast(tf.reshape(used, [-1]), tf.int32), exclusive=True)
    starts = tf.reshape(example * width, tf.shape(numbers))
    source, layout = row_layout(starts, lengths, row_length)
    real = layout["sequence_ids"] > 0

    def placed(name, otherwise):
        taken = tf.where(real, tf.gather(tf.reshape(features[name], [-1]), source), otherwise)
        return tf.ensure_shape(taken, [None, row_length])

    chosen = tf.where(features["weights"] > 0)  # (C, 2): example and slot
    owner = tf.gather(slots, chosen[:, 0])  # (C, 2): row and sequence
    shifted = tf.gather_nd(features["masked_positions"], chosen) + tf.gather_nd(layout["sequence_starts"], owner)

    def row_values(values):
        ragged = tf.RaggedTensor.from_value_rowids(values, owner[:, 0], tf.cast(rows, tf.int64), validate=False)
        return ragged.to_tensor(shape=[None, max_predictions])

    packed = {
        "token_ids": placed("token_ids", pad_id),
        "segment_ids": placed("segment_ids", 0),
        **layout,
        "masked_positions": row_values(shifted),
        "labels": row_values(tf.gather_nd(features["labels"], chosen)),
        "weights": row_values(tf.ones_like(owner[:, 0], tf.float32)),
        "sequence_weights": tf.cast(used, tf.float32),
    }
    if "next_sentence_label" in features:
        labels = tf.scatter_nd(slots, features["next_sentence_label"], tf.shape(numbers, tf.int64))
        packed["next_sentence_label"] = tf.ensure_shape(labels, numbers.shape)
    return packed
