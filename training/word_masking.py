"""Uses TensorFlow. Masking whole words, or spans of several words."""

import numpy as np
import tensorflow as tf

from keras_bert.training.hashing import draw, example_key, stream
from keras_bert.training.masking import BERT_SHARES, check_masking, choice_count, corrupt, share
from keras_bert.training.word_replacement import replace_words, word_starts

NEEDED = ("token_ids", "padding_mask", "word_ids", "example_index")


def mask_words(
    features,
    *,
    maskable,
    mask_id,
    max_predictions,
    seed,
    epoch,
    rate=0.15,
    shares=BERT_SHARES,
    span_lengths=None,
    similar=None,
):
    """Chooses whole words, or spans of words, and corrupts each piece: 80% [MASK], 10% random, 10% kept.

    Words are taken in random order until `round(rate * m)` of the m maskable tokens are chosen; a word that would
    exceed that number is skipped. Where no word is so small, one of the smallest is taken, up to `max_predictions`: a
    text of one word has a mask. A word with a piece that may not be chosen is not chosen.

    Args:
        features: as for `mask_tokens`, and "word_ids" (B, T) int32: the same number at all pieces of a word, another
            at its neighbours, -1 at special tokens and padding. `pair_maker` and `number_words` make it.
        maskable, mask_id, max_predictions, seed, epoch, rate, shares: as for `mask_tokens`.
        span_lengths: None for single words; or the shares of spans of 1, 2, ... words, which sum to 1, such as
            MacBERT's (0.4, 0.3, 0.2, 0.1). A row's words are cut into spans of drawn lengths, other ones in each epoch.
        similar: None, or a table from `similar_words`: a similar word then stands in place of [MASK], as in MacBERT,
            and each word, of a span too, is corrupted as a whole.

    Returns:
        As `mask_tokens`: positions, labels and weights are those of pieces.

    Raises:
        ValueError: as `mask_tokens`; `span_lengths` are not shares.

    Source: whole words, `create_pretraining_data.py` of May 2019; spans, Joshi et al. 2020 and Cui et al. 2020.
    Differs: spans do not overlap by construction, and [MASK] or not is drawn for each piece, in a span too.
    """
    check_masking(features, rate, max_predictions, NEEDED)
    check_spans(span_lengths)
    key = example_key(seed, epoch, features["example_index"])
    is_maskable = tf.gather(tf.constant(maskable), features["token_ids"]) & (features["padding_mask"] > 0)  # (B, T)
    starts = word_starts(features["word_ids"])
    if span_lengths is not None:
        starts = span_starts(starts, is_maskable, span_lengths, stream(key, "mask/span"))
    positions, chosen = choose_units(starts, is_maskable, rate, max_predictions, stream(key, "mask/choice"))
    options = {"maskable": maskable, "key": key, "shares": shares}
    if similar is None:
        return corrupt(features, positions, chosen, mask_id=mask_id, **options)
    return replace_words(features, positions, chosen, similar=similar, **options)


def number_words(features, continuations):
    """Adds "word_ids" by WordPiece's own marks: a `##` piece belongs to the word before it.

    Args:
        features: dict with "token_ids" and "padding_mask" (B, T) int32.
        continuations: (V,) bool from `continuation_table`.
    """
    goes_on = tf.gather(tf.constant(continuations), features["token_ids"])
    numbers = tf.cumsum(tf.cast(~goes_on, tf.int32), axis=1)
    return {**features, "word_ids": tf.where(features["padding_mask"] > 0, numbers, -1)}


def continuation_table(vocab):
    """Which ids go on a word: a (V,) bool array, True for `##` pieces."""
    return np.array([len(token) > 2 and token.startswith("##") for token in vocab])


def span_starts(starts, is_maskable, span_lengths, key):
    """Which starts of words begin a span: (B, T) bool. No span reaches over a token that may not be chosen."""
    limits = np.minimum(np.cumsum(span_lengths)[:-1], 1)
    bits = draw(key[:, None], tf.range(tf.shape(starts)[1]))  # of the n-th span, (B, T)
    lengths = 1 + sum(tf.cast(bits >= share(limit), tf.int32) for limit in limits)
    word = tf.cumsum(tf.cast(starts, tf.int32), axis=1) - 1
    span = tf.searchsorted(tf.cumsum(lengths, axis=1), word, side="right")
    alone = ~is_maskable
    alone = alone[:, 1:] | alone[:, :-1]
    begins = tf.concat([tf.ones_like(starts[:, :1]), (span[:, 1:] != span[:, :-1]) | alone], axis=1)
    return starts & begins


def choose_units(starts, is_maskable, rate, max_predictions, key):
    """Chooses runs of tokens: positions (B, P) int32 and whether a slot is used (B, P) bool.

    Args:
        starts: (B, T) bool, where a run begins; the first of a row does.
    """
    batch, length = tf.unstack(tf.shape(starts))
    sizes, usable, unit = measure(starts, is_maskable)
    usable = usable & (sizes <= max_predictions)

    # All pieces of a run have the hash of its first one, and of equal hashes the first position comes first: so the
    # pieces stay together when they are sorted.
    hashes = draw(key[:, None], tf.range(length))
    hashes = tf.cast(tf.bitwise.right_shift(hashes, tf.constant(1, tf.uint32)), tf.int32)
    hashes = tf.where(usable, tf.boolean_mask(hashes, starts), -1)
    scores = tf.reshape(tf.gather(hashes, unit), [batch, length])
    scores, order = tf.math.top_k(scores, length)  # (B, T)
    sizes = tf.gather(tf.reshape(tf.gather(sizes, unit), [batch, length]), order, batch_dims=1)
    leads = tf.gather(starts, order, batch_dims=1)

    usable = scores >= 0
    least = tf.reduce_min(tf.where(usable, sizes, max_predictions), axis=1, keepdims=True)
    budget = tf.maximum(choice_count(is_maskable, rate, max_predictions)[:, None], least)
    taken = take(sizes, leads, usable, budget)
    if starts.shape[1] is None or starts.shape[1] < max_predictions:
        padding = [[0, 0], [0, tf.maximum(0, max_predictions - length)]]
        taken, order = tf.pad(taken, padding), tf.pad(order, padding)
    chosen, slots = tf.math.top_k(tf.cast(taken, tf.int32), max_predictions)  # equals keep their order
    chosen = chosen > 0
    return tf.where(chosen, tf.gather(order, slots, batch_dims=1), 0), chosen


def measure(starts, is_maskable):
    """Of the batch's U runs: sizes (U,) int32, whether all tokens are maskable (U,), and each token's run (B * T,)."""
    starts = tf.reshape(starts, [-1])
    first = tf.cast(tf.where(starts)[:, 0], tf.int32)
    end = tf.concat([first[1:], [tf.size(starts)]], axis=0)[: tf.size(first)]
    barred = tf.pad(tf.cumsum(tf.cast(~tf.reshape(is_maskable, [-1]), tf.int32)), [[1, 0]])
    usable = tf.equal(tf.gather(barred, end), tf.gather(barred, first))
    return end - first, usable, tf.cumsum(tf.cast(starts, tf.int32)) - 1


def take(sizes, leads, usable, budget):
    """Takes runs in order, skipping those that are larger than what is left of the budget: (B, T) bool.

    A round takes runs up to the first that is too large; that one is too large from then on. There are no more rounds
    than distinct sizes.

    Args:
        sizes: (B, T) int32 of each token's run; leads: whether it is the run's first; budget: (B, 1) int32.
    """

    def step(taken, usable, budget):
        usable = usable & (sizes <= budget)
        reached = tf.cumsum(tf.where(usable & leads, sizes, 0), axis=1)
        now = usable & (reached <= budget)
        budget -= tf.reduce_max(tf.where(now, reached, 0), axis=1, keepdims=True)
        return taken | now, usable & ~now & (sizes <= budget), budget

    loop = (lambda taken, usable, budget: tf.reduce_any(usable), step, (tf.zeros_like(usable), usable, budget))
    return tf.while_loop(*loop, parallel_iterations=1)[0]


def check_spans(span_lengths):
    """Raises ValueError where shares of span lengths are none."""
    if span_lengths is not None and (
        not len(span_lengths) or min(span_lengths) < 0 or abs(sum(span_lengths) - 1) > 1e-6
    ):
        raise ValueError(f"`span_lengths` must be shares of 1, 2, ... words that sum to 1, got {span_lengths}.")
