"""Uses TensorFlow. Short labelled texts packed into rows, for fine-tuning a classifier without padding."""

import hashlib

import numpy as np
import tensorflow as tf

from keras_bert.training.hashing import permute
from keras_bert.training.packing import row_layout, window_planner
from keras_bert.training.pipeline import Pipeline


def packed_pipeline(rows, labels, *, row_length, row_sequences, batch_size, seed):
    """Packs texts, or pairs, into rows for `packed_model` of a classifier, a regressor or a reranker.

    Each epoch has another order, and so other rows.

    Args:
        rows: `Rows`, none longer than `row_length`; with one choice.
        labels: (n,) int or float, or (n, C) for several labels of a text.
        row_length: T.
        row_sequences: S, the most texts of a row.
        batch_size: rows of a batch.

    Returns:
        A `Pipeline`, whose batches are (x, y, sample_weight): x as `packed_model` takes it, y (B, S) or (B, S, C), and
        weights (B, S) float32, 1 where there is a text. The loss must be a mean by them, as `masked_cross_entropy` is.

    Raises:
        ValueError: a text is too long, or `rows` have choices.
    """
    longest = int(rows.tokens.max())
    if longest > row_length:
        raise ValueError(f"`row_length` must be at least {longest}, which the longest text has, got {row_length}.")
    if rows.choices != 1:
        raise ValueError(f"Only rows of one text can be packed, got {rows.choices} choices.")
    flat = {name: tf.constant(getattr(rows, name), tf.int32) for name in ("token_ids", "segment_ids")}
    splits, labels = tf.constant(rows.splits, tf.int64), tf.constant(labels)
    count = len(rows)

    def example(number):
        return permute(number % count, count, seed, number // count)

    def lengths(number):
        place = example(number)
        return tf.cast(tf.gather(splits, place + 1) - tf.gather(splits, place), tf.int32)

    def batch(numbers):
        used = numbers >= 0
        place = example(tf.maximum(numbers, 0))  # (B, S)
        starts = tf.gather(splits, place)
        sizes = tf.where(used, tf.gather(splits, place + 1) - starts, 0)
        source, layout = row_layout(starts, sizes, row_length)
        real = layout["sequence_ids"] > 0
        x = {
            name: tf.ensure_shape(tf.where(real, tf.gather(values, source), fill), [None, row_length])
            for (name, values), fill in zip(flat.items(), (rows.pad_id, 0), strict=True)
        }
        return {**x, **layout}, tf.gather(labels, place), tf.cast(used, tf.float32)

    digest = hashlib.blake2b(repr((row_length, row_sequences, batch_size, seed)).encode())
    for array in (rows.token_ids, rows.splits, np.asarray(labels)):
        digest.update(np.ascontiguousarray(array))
    plan = window_planner(lengths, row_length, row_sequences, seed)
    nbytes = 2 * rows.token_ids.nbytes + rows.splits.nbytes
    return Pipeline(count, batch_size, batch, plan, digest.hexdigest()[:32], nbytes)
