"""The string front, which uses TensorFlow: texts -> word pieces with core operations only.

It works in tf.data, in SavedModels and eagerly. Texts of a batch lie end to end in one array, and only positions
that are still alive are carried on; wordpiece.py is the same program with fixed shapes. Stages: normalize, split, word
pieces, then pack (packing.py).
"""

import tensorflow as tf

from keras_bert.tokenization.characters import ISOLATED, REGULAR
from keras_bert.tokenization.neighbours import final_sigmas, reordered
from keras_bert.tokenization.special import special_tokens
from keras_bert.tokenization.tensors import Pieces, constants, look_up, spread, symbol_of, where
from keras_bert.tokenization.trie import BOUNDARY, MORE, MOVES

LENGTH_BITS = 8  # a match is token id << LENGTH_BITS | length, and no match has more than 200 letters
LENGTH_MASK = (1 << LENGTH_BITS) - 1


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
    starts, ends, letters = split(entries)
    symbols = symbol_of(tf.gather(entries, starts))
    first, found = longest_matches(starts, ends, symbols, letters, tables)
    starts, ends, ids, words = in_text_order(starts, ends, first, found, tf.size(entries), unk_id, tables.max_letters)
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
        starts, ends (W,) int32; letters (M + 1,) int32, the symbols of characters that go on a word, else BOUNDARY.
    """
    kind = entries & 3
    regular = tf.equal(kind, REGULAR)
    goes_on = regular & tf.concat([[False], regular[:-1]], 0)
    borders = where(~goes_on)
    ends = tf.concat([borders, [tf.size(entries)]], 0)[1:]
    words = where(tf.gather(kind, borders) >= ISOLATED)
    letters = tf.where(goes_on, symbol_of(entries), BOUNDARY)
    return tf.gather(borders, words), tf.gather(ends, words), tf.pad(letters, [[0, 1]])


def longest_matches(starts, ends, symbols, letters, tables):
    """Cuts all words into pieces at once, one letter a step, always the longest token that fits.

    Every word has a place in the trie. Where its walk ends, the longest match so far is a piece, and the next walk
    begins behind it, until the word ends or nothing matches.

    Args:
        starts, ends, symbols: (W,) int32 of the words; the symbol is that of the first letter.
        letters: (M + 1,) int32 from `split`.

    Returns:
        where a walk began (P,) int32, and what it found (P,) int32: token id << LENGTH_BITS | length, or 0.
    """
    check, next_base, token = tf.unstack(tables.trie, num=3, axis=1)

    def walk(symbol, at, base, first, best):
        row = base + symbol
        walks = tf.equal(tf.gather(check, row), symbol)
        accepted = tf.where(walks, tf.gather(token, row), -1)
        at += 1
        best = tf.where(accepted >= 0, accepted * (1 << LENGTH_BITS) + (at - first), best)
        symbol = tf.gather(letters, at)
        walks = walks & (symbol > BOUNDARY)
        done, on = where(~walks), where(walks)
        found = tf.gather(first, done), tf.gather(best, done)
        behind = found[0] + (found[1] & LENGTH_MASK)
        rest = tf.gather(letters, behind)
        again = where((found[1] > 0) & (rest > BOUNDARY))
        behind = tf.gather(behind, again)
        live = (
            (tf.gather(symbol, on), tf.gather(rest, again)),
            (tf.gather(at, on), behind),
            (tf.gather(next_base, tf.gather(row, on)), tf.fill(tf.shape(again), tables.continuation_base)),
            (tf.gather(first, on), behind),
            (tf.gather(best, on), tf.zeros_like(again)),
        )
        live = tuple(tf.concat(both, 0) for both in live)
        return live, tf.stack(found, 1)

    def step(number, live, found):
        live, done = walk(*live)
        return number + 1, live, found.write(number, done)

    short = where(ends - starts <= tables.max_letters)
    symbols, starts = tf.gather(symbols, short), tf.gather(starts, short)
    live, done = walk(symbols, starts, tf.fill(tf.shape(short), tables.word_base), starts, tf.zeros_like(short))
    found = tf.TensorArray(tf.int32, 1, dynamic_size=True, infer_shape=False, element_shape=[None, 2]).write(0, done)
    shapes = (tf.TensorShape([]), (tf.TensorShape([None]),) * 5, None)
    loop = (lambda number, live, found: tf.size(live[0]) > 0, step, (1, live, found), shapes)
    _, _, found = tf.while_loop(*loop, parallel_iterations=1)
    return tf.unstack(found.concat(), num=2, axis=1)


def in_text_order(starts, ends, first, found, size, unk_id, max_letters):
    """Puts pieces in the order of the text; a word with a hole, or of more than `max_letters`, is one unknown token.

    Args:
        starts, ends: (W,) int32 of the words; first, found: (P,) from `longest_matches`; size: M.

    Returns:
        starts, ends, ids, words: (P,) int32 of the pieces.
    """
    word_at = tf.cumsum(spread(tf.ones_like(starts), starts, size)) - 1
    word = tf.gather(word_at, first)
    holes = spread(tf.cast(tf.equal(found, 0), tf.int32), word, tf.size(starts))
    unknown = (holes > 0) | (ends - starts > max_letters)
    whole, broken = where(~tf.gather(unknown, word)), where(unknown)
    first, found = tf.gather(first, whole), tf.gather(found, whole)
    last = tf.concat([first + (found & LENGTH_MASK), tf.gather(ends, broken)], 0)
    ids = tf.concat([tf.bitwise.right_shift(found, LENGTH_BITS), tf.fill(tf.shape(broken), unk_id)], 0)
    first = tf.concat([first, tf.gather(starts, broken)], 0)
    row = spread(tf.range(1, tf.size(first) + 1), first, size)  # a map from places to rows
    place = where(row > 0)
    row = tf.gather(row, place) - 1
    return place, tf.gather(last, row), tf.gather(ids, row), tf.gather(word_at, place)
