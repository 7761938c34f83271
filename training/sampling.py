"""Uses TensorFlow. Some pretraining examples as arrays, to be looked at, in rows of their own or packed."""

import math

import numpy as np
import tensorflow as tf

from keras_bert.training.hashing import permute
from keras_bert.training.masking import BERT_SHARES
from keras_bert.training.packing import WINDOW, pack_masked, window_planner
from keras_bert.training.pretraining_batches import example_maker

MOST = 2000


def sample_examples(
    documents, tokenizer, *, max_length, pairing, masking, rate, seed, epoch, short_probability=0.1, most=MOST
):
    """The first examples of an epoch, `most` at most: a dict of arrays as `mask_tokens` gives it.

    Arguments and errors are those of `pretraining_batches`.
    """
    if not 0 < rate < 1:
        raise ValueError(f"`rate` must be between 0 and 1, got {rate}.")
    count, make, _ = example_maker(
        documents,
        tokenizer,
        max_length=max_length,
        max_predictions=math.ceil(rate * max_length),
        seed=seed,
        pairing=pairing,
        masking=masking,
        rate=rate,
        shares=BERT_SHARES,
        similar=None,
        short_probability=short_probability,
    )
    parts = []
    for first in range(0, min(count, most), 256):
        number = tf.range(first, min(first + 256, count, most), dtype=tf.int64)
        parts.append(make(tf.constant(epoch, tf.int64), permute(number, count, seed, epoch)))
    return {name: np.concatenate([part[name].numpy() for part in parts]) for name in parts[0]}


def packed_examples(features, row_length, row_sequences, pad_id, seed):
    """Packs examples into rows, as training does.

    Args:
        features: what `sample_examples` gives.
        row_length, row_sequences: T and S.
        seed: decides the order of the rows.

    Returns:
        A dict of arrays as `pack_masked` gives it, and (R, S) int64, numbers of examples and then -1.
    """
    lengths = tf.constant(features["padding_mask"].sum(axis=1), tf.int32)
    plan = window_planner(lambda number: tf.gather(lengths, number), row_length, row_sequences, seed)
    count = tf.size(lengths, tf.int64)
    windows = tf.range(-(-count // WINDOW))
    numbers = np.concatenate([plan(window, count) for window in windows])
    chosen = {name: tf.constant(values[numbers[numbers >= 0]]) for name, values in features.items()}
    predictions = features["labels"].shape[1] + row_sequences
    packed = pack_masked(chosen, tf.constant(numbers), row_length, predictions, pad_id)
    return {name: value.numpy() for name, value in packed.items()}, numbers
