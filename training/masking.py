"""Uses TensorFlow. Masked-language-model examples: which tokens are predicted, and what stands in their place."""

import re

import numpy as np
import tensorflow as tf

from keras_bert.training.hashing import below, draw, example_key, stream

# Of the chosen tokens: how many become [MASK], and how many a random token; the rest stays as it is.
BERT_SHARES = (0.8, 0.1)
ELECTRA_SHARES = (0.85, 0.0)  # as its code has it


def maskable_table(vocab, special_ids):
    """Which ids may be chosen and may be drawn: a (V,) bool array, False for special and [unused*] tokens."""
    table = np.array([not re.fullmatch(r"\[unused\d+\]", token) for token in vocab])
    table[list(special_ids)] = False
    if not table.any():
        raise ValueError(f"The vocabulary must hold a token that can be masked, got {len(vocab)} tokens, none of them.")
    return table


def mask_tokens(features, *, maskable, mask_id, max_predictions, seed, epoch, rate=0.15, shares=BERT_SHARES):
    """Chooses tokens to predict and corrupts them: 80% [MASK], 10% random, 10% kept.

    Of a sequence's m maskable tokens exactly `round(rate * m)` are chosen: at least one, at most `max_predictions`.

    Args:
        features: dict with "token_ids" and "padding_mask" (B, T) int32 and "example_index" (B,) int64; other keys
            pass through.
        maskable: (V,) bool from `maskable_table`: the ids that may be chosen, and drawn as random replacements.
        mask_id: id of [MASK].
        max_predictions: P.
        seed, epoch: int64, `epoch` a scalar or (B,). With "example_index" they decide the mask, whatever the
            batch, the order or the number of workers.
        rate: share of the maskable tokens to choose.
        shares: of the chosen ones, how many become [MASK] and how many a random token.

    Returns:
        `features` with "token_ids" corrupted, and "masked_positions" (B, P) int32, "labels" (B, P) int32 and
        "weights" (B, P) float32, 1 where a token was chosen. Unused slots hold position 0, label 0, weight 0.

    Raises:
        ValueError: `rate` is not in (0, 1), `max_predictions` is under 1, or a feature is missing.

    Source: Devlin et al. 2018, section 3.1, task 1. Differs: [UNK] is not predicted either, and random tokens are
    never special.
    """
    check_masking(features, rate, max_predictions)
    token_ids, key = features["token_ids"], example_key(seed, epoch, features["example_index"])
    is_maskable = tf.gather(tf.constant(maskable), token_ids) & (features["padding_mask"] > 0)  # (B, T)
    positions, chosen = choose(is_maskable, rate, max_predictions, stream(key, "mask/choice"))
    return corrupt(features, positions, chosen, maskable=maskable, mask_id=mask_id, key=key, shares=shares)


def corrupt(features, positions, chosen, *, maskable, mask_id, key, shares=BERT_SHARES):
    """Puts [MASK], random tokens or themselves at the chosen positions, each decided by itself.

    Args:
        positions: (B, P) int32; chosen: (B, P) bool, whether a slot is used.
        key: (B,) uint32 from `example_key`.

    Returns:
        `features` with the results that `mask_tokens` describes.
    """
    masked, random = shares
    originals = tf.gather(features["token_ids"], positions, batch_dims=1)  # (B, P)
    action = draw(stream(key, "mask/action")[:, None], positions)  # (B, P)
    replacements = tf.where(action < share(masked + random), random_tokens(maskable, key, positions), originals)
    replacements = tf.where(action < share(masked), mask_id, replacements)
    return replace(features, positions, chosen, originals, replacements)


def random_tokens(maskable, key, positions):
    """A token for each position, (B, P) int32, drawn from all that may be chosen."""
    drawable = np.flatnonzero(maskable).astype(np.int32)
    bits = draw(stream(key, "mask/replacement")[:, None], positions)
    return tf.gather(tf.constant(drawable), below(bits, len(drawable)))


def replace(features, positions, chosen, originals, replacements):
    """Puts replacements (B, P) in the tokens' places, and makes the originals the labels."""
    token_ids = features["token_ids"]
    # Adding differences, not writing values: the unused slots all point at position 0 and add nothing there.
    differences = tf.where(chosen, replacements - originals, 0)
    rows = tf.broadcast_to(tf.range(tf.shape(token_ids)[0])[:, None], tf.shape(positions))
    corrupted = tf.tensor_scatter_nd_add(token_ids, tf.stack([rows, positions], axis=-1), differences)
    return {
        **features,
        "token_ids": tf.ensure_shape(corrupted, token_ids.shape),
        "masked_positions": positions,
        "labels": tf.where(chosen, originals, 0),
        "weights": tf.cast(chosen, tf.float32),
    }


def choose(is_maskable, rate, max_predictions, key):
    """The positions with the greatest hashes: positions (B, P) int32 and whether a slot is used (B, P) bool."""
    length = tf.shape(is_maskable)[1]
    scores = tf.cast(tf.bitwise.right_shift(draw(key[:, None], tf.range(length)), tf.constant(1, tf.uint32)), tf.int32)
    scores = tf.where(is_maskable, scores, -1)  # (B, T)
    if is_maskable.shape[1] is None or is_maskable.shape[1] < max_predictions:
        scores = tf.pad(scores, [[0, 0], [0, tf.maximum(0, max_predictions - length)]], constant_values=-1)
    positions = tf.math.top_k(scores, max_predictions).indices  # of equal hashes the first position wins
    chosen = tf.range(max_predictions) < choice_count(is_maskable, rate, max_predictions)[:, None]
    return tf.where(chosen, positions, 0), chosen


def choice_count(is_maskable, rate, max_predictions):
    """How many tokens to choose: `round(rate * m)` of m, at least one, at most `max_predictions`, (B,) int32."""
    maskable_count = tf.reduce_sum(tf.cast(is_maskable, tf.int32), axis=1)  # (B,)
    # float64 and rounding to even, so that it is Python's round(rate * m)
    count = tf.cast(tf.round(rate * tf.cast(maskable_count, tf.float64)), tf.int32)
    return tf.minimum(tf.clip_by_value(count, 1, max_predictions), maskable_count)


def share(fraction):
    """The uint32 under which `fraction` of all hashes lie."""
    return tf.constant(min(round(fraction * 2**32), 2**32 - 1), tf.uint32)


def check_masking(features, rate, max_predictions, needed=("token_ids", "padding_mask", "example_index")):
    """Raises ValueError where masking cannot work."""
    if not 0 < rate < 1:
        raise ValueError(f"`rate` must be between 0 and 1, got {rate}.")
    if max_predictions < 1:
        raise ValueError(f"`max_predictions` must be at least 1, got {max_predictions}.")
    missing = set(needed) - features.keys()
    if missing:
        raise ValueError(f"Masking needs the features {sorted(missing)}, got {sorted(features)}.")
