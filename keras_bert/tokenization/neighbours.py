"""What depends on a character's neighbours: the order of marks. Uses TensorFlow."""

import tensorflow as tf

from keras_bert.tokenization.characters import CLEANED
from keras_bert.tokenization.tensors import look_up, where
from keras_bert.tokenization.trie import MORE


def reordered(entries, code_points, tables):
    """What `normalize` gives where some code points become several or change places: entries, source."""
    order = canonical_order(look_up(code_points, tables.rank_page, tables.ranks))
    more = look_up(tf.gather(code_points, order), tables.more_page, tables.more)  # (N, 2)
    first = tf.expand_dims(tf.gather(entries, order), 1)
    slots = tf.reshape(tf.concat([first, tf.where(first & MORE > 0, more, 0)], 1), [-1])
    kept = where(slots > 0)
    return tf.gather(slots, kept), kept // 3


def canonical_order(ranks):
    """Sorts each run of marks by rank, as decomposition does; places stay, so that offsets are those of `tokenizers`.

    Returns:
        (N,) int32: which code point stands at each place.
    """
    present = where(ranks < CLEANED)
    rank = tf.cast(tf.gather(ranks, present), tf.int64)
    run = tf.cumsum(tf.cast(tf.equal(rank, 0), tf.int64))
    order = tf.gather(present, tf.argsort(run * CLEANED + rank, stable=True))
    return tf.tensor_scatter_nd_update(tf.range(tf.size(ranks)), tf.expand_dims(present, 1), order)
