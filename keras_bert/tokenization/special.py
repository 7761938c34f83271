"""Special and added tokens in raw text: which are allowed, and where they stand. Uses TensorFlow."""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_bert.tokenization.characters import ISOLATED, NUM_CODE_POINTS, REGULAR
from keras_bert.tokenization.matching import block_labels, longest_tokens
from keras_bert.tokenization.tensors import ARRAY_OPS, look_up, symbol_of, where
from keras_bert.tokenization.trie import KIND_BITS, LENGTH_BITS, LENGTH_MASK, UNKNOWN, build_tables


def checked_special(allowed_special, token_ids, name="allowed_special"):
    """The allowed tokens, sorted, each once; refuses what no text can hold as a word."""
    if isinstance(allowed_special, str):
        raise ValueError(f"`{name}` must be a collection of tokens, got the string {allowed_special!r}.")
    allowed = tuple(sorted(set(allowed_special)))
    for token in allowed:
        if token not in token_ids:
            raise ValueError(f"`{name}` must hold tokens of the vocabulary, got {token!r}.")
        if not token.strip() or "\n" in token or token.startswith("##"):
            raise ValueError(f"`{name}` must hold words, got {token!r}.")
        if len(token) > LENGTH_MASK:
            raise ValueError(f"`{name}` must hold tokens of at most {LENGTH_MASK} letters, got one of {len(token)}.")
    return allowed


def special_tables(tokenizer, allowed_special):
    """Tables of allowed and added tokens, where each code point stands for itself, made once; None without any."""
    allowed = checked_special(allowed_special, tokenizer.token_ids)
    allowed = tuple(sorted({*allowed, *tokenizer.added_tokens}))
    key = ("tables", allowed)
    if key not in tokenizer.caches:
        tokenizer.caches[key] = _tables(allowed, tokenizer.token_ids) if allowed else None
    return tokenizer.caches[key]


def _tables(allowed, token_ids):
    becomes = np.zeros((NUM_CODE_POINTS, 3), "int32")
    becomes[:, 0] = np.arange(NUM_CODE_POINTS)
    kinds, ranks = np.full(NUM_CODE_POINTS, REGULAR, "uint8"), np.zeros(NUM_CODE_POINTS, "uint8")
    # Continuations to the trie, because a special token may stand anywhere.
    tables = build_tables([f"##{token}" for token in allowed], becomes, kinds, ranks, max_letters=LENGTH_MASK)
    ids = np.array([token_ids[token] for token in allowed], "int32")
    nodes = tables.nodes.copy()
    match = np.maximum(nodes[:, 2], 0)
    nodes[:, 2] = np.where(match > 0, ids[match >> LENGTH_BITS] << LENGTH_BITS | match & LENGTH_MASK, 0)
    return dataclasses.replace(tables, nodes=nodes)


def special_tokens(entries, code_points, allowed):
    """Finds allowed special tokens in raw text, leftmost and longest first, and makes each an isolated character.

    Returns:
        entries (N,) int32; given (N,) int32, the token id at the first code point of a special token, else -1;
        reach (N,) int32, the length there, else 1.
    """
    symbols = symbol_of(look_up(code_points, allowed.page, allowed.entries))
    labels = block_labels(ARRAY_OPS, symbols, allowed)
    starts = where(tf.equal(tf.gather(allowed.nodes[:, 0], allowed.root_base + symbols), symbols))
    match = longest_tokens(ARRAY_OPS, labels, starts, allowed)
    found = where(match > 0)
    starts, match = tf.gather(starts, found), tf.gather(match, found)
    length, token = match & LENGTH_MASK, tf.bitwise.right_shift(match, LENGTH_BITS)
    chosen = where(_on_path(tf.searchsorted(starts, starts + length)))
    starts, length, token = (tf.gather(x, chosen) for x in (starts, length, token))
    places, shape = tf.expand_dims(starts, 1), tf.shape(code_points)
    given = tf.tensor_scatter_nd_update(tf.fill(shape, -1), places, token)
    reach = tf.tensor_scatter_nd_update(tf.fill(shape, 1), places, length)
    change = tf.tensor_scatter_nd_add(tf.zeros(shape + 1, tf.int32), places, tf.ones_like(starts))
    inside = tf.cumsum(tf.tensor_scatter_nd_add(change, places + tf.expand_dims(length, 1), -tf.ones_like(starts)))[:-1]
    entries = tf.where(given >= 0, UNKNOWN << KIND_BITS | ISOLATED, tf.where(inside > 0, 0, entries))
    return entries, given, reach


def _on_path(jump):
    """Marks the elements reached from the first by following `jump` (M,), whose values grow and may be M; bool (M,)."""
    count = tf.size(jump)

    def double(span, jump, reached):
        landed = tf.scatter_nd(tf.expand_dims(jump, 1), reached, [count + 1])
        return span * 2, tf.gather(jump, jump), tf.minimum(reached + landed, 1)

    reached = tf.cast(tf.equal(tf.range(count + 1), 0), tf.int32)
    loop = (1, tf.concat([jump, [count]], 0), reached)
    shapes = (tf.TensorShape([]), tf.TensorShape([None]), tf.TensorShape([None]))
    return tf.while_loop(lambda span, *_: span <= count, double, loop, shapes)[2][:-1] > 0
