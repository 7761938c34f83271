"""What depends on a character's neighbours: the order of marks, the final sigma. Uses TensorFlow."""

import tensorflow as tf

from keras_bert.tokenization.characters import CASED, CLEANED, FINAL_SIGMA, OTHER, SIGMA, TRANSPARENT
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


def final_sigmas(entries, code_points, tables, given=None):
    """Makes each capital sigma that ends a word the final one, as `str.lower` does: entries (N,).

    It is final behind a cased letter and not before one. Case-ignorable and dropped characters are looked through.
    `given` (N,) int32 is at least 0 at special tokens, or None.
    """
    sigma = tf.equal(code_points, SIGMA)

    def found():
        case = look_up(code_points, tables.case_page, tables.case)
        if given is not None:
            case = tf.where(given >= 0, OTHER, case)
        seen = case < TRANSPARENT
        classes = tf.pad(tf.gather(case, where(seen)), [[1, 1]])
        places = where(sigma)
        order = tf.gather(tf.cumsum(tf.cast(seen, tf.int32)), places)  # a sigma's own place in `classes`
        final = tf.equal(tf.gather(classes, order - 1), CASED) & tf.not_equal(tf.gather(classes, order + 1), CASED)
        places = tf.gather(places, where(final))
        entry = look_up(tf.fill(tf.shape(places), FINAL_SIGMA), tables.page, tables.entries)
        return tf.tensor_scatter_nd_update(entries, tf.expand_dims(places, 1), entry)

    return tf.cond(tf.reduce_any(sigma), found, lambda: entries)
