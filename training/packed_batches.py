"""Uses TensorFlow. Short labelled texts packed into rows, for fine-tuning a classifier without padding."""

import numpy as np
import tensorflow as tf

from keras_bert.training.batches import steps_per_epoch
from keras_bert.training.hashing import permute
from keras_bert.training.packing import WINDOW, row_layout, window_planner
from keras_bert.training.pipeline import borders


def packed_batches(rows, labels, *, row_length, batch_size, seed, epochs, weights=None):
    """Batches of `epochs` epochs, one after the other, of texts or pairs packed into rows for `packed_model`.

    Each epoch has every text once, in another order and so in other rows, and as many batches as `training_batches` has
    of it: its rows are shared out evenly, so that a batch has `batch_size` texts in the mean. All this is a function of
    (seed, epoch).

    Args:
        rows: `Rows`, none longer than `row_length`; with one choice.
        labels: (n,) int, or (n, C) for several labels of a text.
        row_length: T.
        batch_size: texts of a batch, in the mean; also S, the most texts of a row, where a row could hold more.
        weights: what each text counts, (n,); None for all alike.

    Returns:
        tf.data.Dataset of (x, y, sample_weight): x as `packed_model` takes it, y (B, S) or (B, S, C), and weights
        (B, S) float32, 0 where there is no text. The loss must be a mean by them, as `masked_cross_entropy` is.

    Raises:
        ValueError: a text is too long, or `rows` have choices.
    """
    longest = int(rows.tokens.max())
    if longest > row_length:
        raise ValueError(f"`row_length` must be at least {longest}, which the longest text has, got {row_length}.")
    if rows.choices != 1:
        raise ValueError(f"Only rows of one text can be packed, got {rows.choices} choices.")
    count, steps = len(rows), steps_per_epoch(rows, batch_size)
    slots = most_texts(rows, row_length, batch_size)
    flat = {name: tf.constant(getattr(rows, name), tf.int32) for name in ("token_ids", "segment_ids")}
    splits, labels = tf.constant(rows.splits, tf.int64), tf.constant(labels)
    counts = tf.constant(np.ones(count) if weights is None else weights, tf.float32)
    planned = _epoch_planner(rows, row_length, slots, seed)

    def shares(epoch):
        data = planned(epoch)  # one element: all rows of the epoch
        return data.flat_map(lambda numbers: tf.data.Dataset.range(steps).map(lambda i: share(numbers, i)))

    def share(numbers, index):
        first, end = borders(tf.shape(numbers, tf.int64)[0], (index, steps))
        return numbers[first:end]

    def batch(numbers):
        place = tf.maximum(numbers, 0)  # (B, S)
        starts = tf.gather(splits, place)
        used = numbers >= 0
        sizes = tf.where(used, tf.gather(splits, place + 1) - starts, 0)
        source, layout = row_layout(starts, sizes, row_length)
        real = layout["sequence_ids"] > 0
        x = {
            name: tf.ensure_shape(tf.where(real, tf.gather(values, source), fill), [None, row_length])
            for (name, values), fill in zip(flat.items(), (rows.pad_id, 0), strict=True)
        }
        return {**x, **layout}, tf.gather(labels, place), tf.where(used, tf.gather(counts, place), 0.0)

    data = tf.data.Dataset.range(epochs).flat_map(shares).map(batch, tf.data.AUTOTUNE, deterministic=True)
    return data.apply(tf.data.experimental.assert_cardinality(epochs * steps)).prefetch(2)


def most_texts(rows, row_length, batch_size):
    """S: as many of the shortest texts as a row holds. At most a batch's, so that an epoch has a row for each batch."""
    return min(batch_size, row_length // int(rows.tokens.min()))


def packed_padding(rows, row_length, batch_size, seed):
    """The share of padding in the packed rows of the first epoch."""
    slots = most_texts(rows, row_length, batch_size)
    (numbers,) = _epoch_planner(rows, row_length, slots, seed)(tf.constant(0, tf.int64))
    return 1 - float(rows.tokens.sum()) / (int(numbers.shape[0]) * row_length)


def _epoch_planner(rows, row_length, slots, seed):
    """Gives a function from an epoch to a dataset of one element: (R, S) int64, numbers of texts and then -1."""
    count, tokens = len(rows), tf.constant(rows.tokens)

    def planned(epoch):
        def order(number):
            return permute(number, count, seed, epoch)

        plan = window_planner(lambda number: tf.gather(tokens, order(number)), row_length, slots, seed)

        def window(number):
            places = plan(number, tf.constant(count, tf.int64))
            return tf.where(places < 0, places, order(tf.maximum(places, 0)))

        return tf.data.Dataset.range(-(-count // WINDOW)).map(window).unbatch().batch(count)

    return planned
