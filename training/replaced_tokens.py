"""Uses TensorFlow. ELECTRA's other half: what the detector reads once a generator has filled the masks."""

import tensorflow as tf

from keras_bert.training.hashing import draw, example_key, stream


def replaced_tokens(token_ids, masked_positions, labels, weights, logits, *, seed, allowed=None):
    """Puts tokens that the generator draws at the masked positions, for `replaced_token_detector`.

    The draw is a function of the seed and of the row that the generator read: the same in every run, any batch and on
    any replica, and another one in each epoch, which has other masks.

    Args:
        token_ids: (B, T) int32, what the generator read, with its masks.
        masked_positions, labels: (B, P) int32, and weights: (B, P) float32, as `mask_tokens` gives them.
        logits: (B, P, V) float32 of the generator. No gradient flows through the draw.
        seed: int64.
        allowed: (V,) bool, which tokens may be drawn, such as `maskable_table`; None for all.

    Returns:
        The detector's token ids (B, T) int32, and its labels (B, T) int32: 1 where a token is another one than in the
        text; 0 elsewhere, also where the generator drew the text's own.

    Source: Clark et al. 2020, section 2. Differs: special tokens are not drawn where `allowed` says so.
    """
    logits = tf.stop_gradient(tf.cast(logits, tf.float32))
    if allowed is not None:
        logits = tf.where(tf.constant(allowed), logits, logits.dtype.min)
    content = tf.reduce_sum(draw(tf.cast(token_ids, tf.uint32), tf.range(tf.shape(token_ids)[1])), axis=1)  # (B,)
    key = stream(example_key(seed, 0, tf.cast(content, tf.int64)), "replaced/token")[:, None]
    drawn = draw_tokens(logits, draw(key, masked_positions))
    rows = tf.range(tf.shape(token_ids)[0])[:, None]
    # Adding differences, not writing values: the unused slots all point at position 0 and add nothing there.
    there = tf.stack([tf.broadcast_to(rows, tf.shape(drawn)), masked_positions], axis=-1)
    chosen = weights > 0
    masked = tf.gather(token_ids, masked_positions, batch_dims=1)
    filled = tf.tensor_scatter_nd_add(token_ids, there, tf.where(chosen, drawn - masked, 0))
    replaced = tf.cast(chosen & (drawn != labels), tf.int32)
    return filled, tf.tensor_scatter_nd_add(tf.zeros_like(token_ids), there, replaced)


def draw_tokens(logits, bits):
    """Draws a token of each softmax, (B, P) int32, by inverting its distribution: one hash a position, not one a token.

    Args:
        logits: (B, P, V) float32; bits: (B, P) uint32.
    """
    reached = tf.cumsum(tf.nn.softmax(logits), axis=-1)  # (B, P, V)
    share = (tf.cast(bits, tf.float32) + 0.5) * 2.0**-32
    below = tf.minimum(share * reached[..., -1], tf.math.nextafter(reached[..., -1], 0.0))  # under the rounded sum
    return tf.reduce_sum(tf.cast(reached <= below[..., None], tf.int32), axis=-1)
