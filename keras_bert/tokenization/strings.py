"""The string front, which uses TensorFlow: texts -> word pieces with core operations only.

It works in tf.data, in SavedModels and eagerly. Texts of a batch lie end to end in one array, and only words that are
not yet cut to their end are carried on; wordpiece.py is the same program with fixed shapes. Stages: normalize, split,
word pieces, then pack (packing.py).
"""

import tensorflow as tf

from keras_bert.tokenization.characters import ISOLATED, REGULAR
from keras_bert.tokenization.matching import block_labels, longest_tokens
from keras_bert.tokenization.neighbours import final_sigmas, reordered
from keras_bert.tokenization.special import special_tokens
from keras_bert.tokenization.tensors import ARRAY_OPS, Pieces, constants, look_up, spread, symbol_of, where
from keras_bert.tokenization.trie import LENGTH_BITS, LENGTH_MASK, MORE, MOVES


@tf.autograph.experimental.do_not_convert
def word_pieces(code_points, row_splits, tables, unk_id, allowed=None):
    """Finds the word pieces of texts that lie end to end.

    Args:
        code_points: (N,) int32; the last one of each text is a line end.
        row_splits: (B + 1,) int32.
        tables: `Tables` of the vocabulary.
        allowed: `Tables` of the special tokens that count as such in raw text, or None.
    """
    tables = constants(tables)
    entries = look_up(code_points, tables.page, tables.entries)
    if allowed is not None:
        entries, given, reach = special_tokens(entries, code_points, allowed)
    if tables.case is not None:
        entries = final_sigmas(entries, code_points, tables, None if allowed is None else given)
    entries, source = normalize(entries, code_points, tables)
    starts, ends, goes_on = split(entries)
    pieces = longest_matches(starts, ends, goes_on, symbol_of(entries), tables)
    starts, ends, ids, words = in_text_order(starts, ends, *pieces, tf.size(entries), unk_id, tables.max_letters)
    starts, last = tf.gather(source, starts), tf.gather(source, ends - 1)
    if allowed is None:
        ends = last + 1
    else:
        ends = last + tf.gather(reach, last)
        given = tf.gather(given, starts)
        ids = tf.where(given >= 0, given, ids)
    return Pieces(ids, tf.searchsorted(starts, row_splits), starts, ends, words)


def normalize(entries, code_points, tables):
    """Drops what cleaning and accent stripping drop; some code points become several.

    Returns:
        entries (M,) int32, symbol << KIND_BITS | kind; source (M,) int32, the place each comes from.
    """
    kept = where(entries > 0)
    one_each = tf.gather(entries, kept)
    rare = tf.reduce_any(one_each & (MORE | MOVES) > 0)
    return tf.cond(rare, lambda: reordered(entries, code_points, tables), lambda: (one_each, kept))


def split(entries):
    """Finds the words: runs of regular characters, and isolated ones by themselves.

    Returns:
        starts, ends (W,) int32; goes_on (M,) bool, where a character goes on a word.
    """
    kind = entries & 3
    regular = tf.equal(kind, REGULAR)
    goes_on = regular & tf.concat([[False], regular[:-1]], 0)
    borders = where(~goes_on)
    ends = tf.concat([borders, [tf.size(entries)]], 0)[1:]
    words = where(tf.gather(kind, borders) >= ISOLATED)
    return tf.gather(borders, words), tf.gather(ends, words), goes_on


def longest_matches(starts, ends, goes_on, symbols, tables):
    """Cuts all words into pieces at once, one piece a step, always the longest token that fits.

    Args:
        starts, ends: (W,) int32 of the words; goes_on: (M,) bool from `split`; symbols: (M,) int32.

    Returns:
        (P,) int32 each: where a piece begins; what it is, token id << LENGTH_BITS | length, or 0; its word's number.
    """
    labels = block_labels(ARRAY_OPS, tf.where(goes_on, symbols, symbols + tables.symbols), tables)

    def step(number, first, word, pieces):
        found = longest_tokens(ARRAY_OPS, labels, first, tables)
        behind = first + (found & LENGTH_MASK)
        rest = where(tf.gather(goes_on, behind) & (found > 0))
        pieces = pieces.write(number, tf.stack([first, found, word], 1))
        return number + 1, tf.gather(behind, rest), tf.gather(word, rest), pieces

    letters = ends - starts
    single, longer = where(tf.equal(letters, 1)), where((letters > 1) & (letters <= tables.max_letters))
    first = tf.gather(starts, single)
    found = tf.gather(tables.letter_match, tf.gather(labels[0], first))
    pieces = tf.TensorArray(tf.int32, 1, dynamic_size=True, infer_shape=False, element_shape=[None, 3])
    pieces = pieces.write(0, tf.stack([first, found, single], 1))
    state = 1, tf.gather(starts, longer), longer, pieces
    shapes = tf.TensorShape([]), tf.TensorShape([None]), tf.TensorShape([None]), None
    loop = (lambda number, first, *_: tf.size(first) > 0, step, state, shapes)
    return tf.unstack(tf.while_loop(*loop, parallel_iterations=1)[-1].concat(), num=3, axis=1)


def in_text_order(starts, ends, first, found, word, size, unk_id, max_letters):
    """Puts pieces in the order of the text; a word with a hole, or of more than `max_letters`, is one unknown token.

    Args:
        starts, ends: (W,) int32 of the words; first, found, word: (P,) from `longest_matches`; size: M.

    Returns:
        starts, ends, ids, words: (P,) int32 of the pieces.
    """
    holes = spread(tf.cast(tf.equal(found, 0), tf.int32), word, tf.size(starts))
    unknown = (holes > 0) | (ends - starts > max_letters)
    whole, broken = where(~tf.gather(unknown, word)), where(unknown)
    first, found, word = tf.gather(first, whole), tf.gather(found, whole), tf.gather(word, whole)
    last = tf.concat([first + (found & LENGTH_MASK), tf.gather(ends, broken)], 0)
    ids = tf.concat([tf.bitwise.right_shift(found, LENGTH_BITS), tf.fill(tf.shape(broken), unk_id)], 0)
    first, word = tf.concat([first, tf.gather(starts, broken)], 0), tf.concat([word, broken], 0)
    row = spread(tf.range(1, tf.size(first) + 1), first, size)  # a map from places to rows
    place = where(row > 0)
    row = tf.gather(row, place) - 1
    return place, tf.gather(last, row), tf.gather(ids, row), tf.gather(word, row)
