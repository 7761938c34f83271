"""Uses TensorFlow. MacBERT's corruption: a similar word in place of [MASK]."""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_bert.training.hashing import below, draw, stream
from keras_bert.training.masking import random_tokens, replace, share


@dataclasses.dataclass(frozen=True)
class SimilarWords:
    """Words and words to put in their places, as token ids; a word and its similar ones have equally many pieces.

    Args:
        hashes: (W,) int64 of the words, rising.
        starts: (W + 1,) int64, where each word's similar ones begin in `firsts`.
        firsts: (C,) int64, where each similar word begins in `pieces`.
        pieces: (M,) int32.
    """

    hashes: np.ndarray
    starts: np.ndarray
    firsts: np.ndarray
    pieces: np.ndarray


def word_hashes(token_ids, offset, word, count):
    """64 bits for each word, (`count`,) int64.

    Args:
        token_ids: (N,) int32, pieces of words; offset: (N,) int32, each piece's place in its word.
        word: (N,) int32 or int64, rising, the number of its word.
    """
    bits = [tf.cast(draw(draw(tf.constant(part, tf.uint32), offset), token_ids), tf.int64) for part in (1, 2)]
    bits = tf.bitwise.left_shift(bits[0], tf.constant(32, tf.int64)) | bits[1]
    return tf.math.unsorted_segment_sum(bits, word, count)


def word_starts(word_ids):
    """Where a word, a special token or padding begins: (B, T) bool."""
    changes = word_ids[:, 1:] != word_ids[:, :-1]
    return tf.concat([tf.ones_like(word_ids[:, :1], tf.bool), changes], axis=1)


def replace_words(features, positions, chosen, *, similar, maskable, key, shares):
    """Puts similar words, random tokens or themselves at the chosen positions, decided for each word as a whole.

    A word that the table does not know becomes random tokens where it would become a similar word.

    Args:
        features: dict with "token_ids" and "word_ids" (B, T) int32.
        positions: (B, P) int32; chosen: (B, P) bool, whether a slot is used; all pieces of a word are, or none.
        similar: `SimilarWords`.
        key: (B,) uint32 from `example_key`.
        shares: how many words become similar ones, and how many random tokens.

    Returns:
        `features` with the results that `mask_tokens` describes.

    Source: Cui et al. 2020, section 3.1. Differs: a similar word has as many pieces as the word.
    """
    like, random = shares
    originals = tf.gather(features["token_ids"], positions, batch_dims=1)  # (B, P)
    offset, entry = look_up(features, similar)
    offset, entry = (tf.gather(values, positions, batch_dims=1) for values in (offset, entry))  # (B, P)
    first = positions - offset  # one draw for all pieces of a word
    action = draw(stream(key, "mask/action")[:, None], first)
    starts = tf.constant(similar.starts)
    known = entry >= 0
    entry = tf.maximum(entry, 0)
    count = tf.gather(starts, entry + 1) - tf.gather(starts, entry)
    candidate = tf.gather(starts, entry) + below(draw(stream(key, "mask/similar")[:, None], first), count)
    place = tf.gather(tf.constant(similar.firsts), candidate) + tf.cast(tf.where(known, offset, 0), tf.int64)
    likes = tf.gather(tf.constant(similar.pieces), place)
    replacements = tf.where(action < share(like + random), random_tokens(maskable, key, positions), originals)
    replacements = tf.where(known & (action < share(like)), likes, replacements)
    return replace(features, positions, chosen, originals, replacements)


def look_up(features, similar):
    """Each token's place in its word, and its word's number in the table or -1: (B, T) int32 and int64."""
    shape = tf.shape(features["token_ids"])
    starts = tf.reshape(word_starts(features["word_ids"]), [-1])
    word = tf.cumsum(tf.cast(starts, tf.int32)) - 1
    firsts = tf.cast(tf.where(starts)[:, 0], tf.int32)
    offset = tf.range(tf.size(word)) - tf.gather(firsts, word)
    hashes = word_hashes(tf.reshape(features["token_ids"], [-1]), offset, word, tf.size(firsts))
    known = tf.constant(similar.hashes)
    entry = tf.minimum(tf.searchsorted(known, hashes, out_type=tf.int64), len(similar.hashes) - 1)
    entry = tf.where(tf.equal(tf.gather(known, entry), hashes), entry, -1)
    return tf.reshape(offset, shape), tf.reshape(tf.gather(entry, word), shape)
