"""The string front, which uses TensorFlow: texts -> word pieces with core operations only.

It works in tf.data, in SavedModels and eagerly. Texts of a batch lie end to end in one array, and only positions
that are still alive are carried on; wordpiece.py is the same program with fixed shapes. Stages: normalize, split, word
pieces, then pack (packing.py).
"""

import dataclasses
import types
import typing

import tensorflow as tf

from keras_bert.tokenization.characters import CLEANED, ISOLATED, PAGE, PAGE_BITS, REGULAR
from keras_bert.tokenization.trie import BOUNDARY, KIND_BITS, MAX_LETTERS, MORE, MOVES, UNKNOWN

LENGTH_BITS = 7  # a match is token id << LENGTH_BITS | length, and no match has more than MAX_LETTERS letters
LENGTH_MASK = (1 << LENGTH_BITS) - 1
ARRAY_OPS = types.SimpleNamespace(
    arange=tf.range,
    take=tf.gather,
    where=tf.where,
    minimum=tf.minimum,
    maximum=tf.maximum,
    expand_dims=tf.expand_dims,
    max=tf.reduce_max,
    pad=tf.pad,
    split=tf.split,
)


class Pieces(typing.NamedTuple):
    """Word pieces of a batch of texts, end to end.

    Attributes:
        ids: (P,) int32 token ids.
        row_splits: (B + 1,) int32; text b has the pieces row_splits[b] up to row_splits[b + 1].
        starts, ends: (P,) int32 half-open places in the flat code points.
        words: (P,) int32 number of the piece's word in the batch.
    """

    ids: tf.Tensor
    row_splits: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    words: tf.Tensor


def code_points_of(texts):
    """Decodes strings (B,) to flat int32 code points, a line end after each text, and int32 row_splits (B + 1,).

    Bytes that are not UTF-8 become U+FFFD, which normalization drops.

    Raises:
        ValueError: `texts` has another rank than 1.
    """
    if texts.shape.rank not in (1, None):
        raise ValueError(f"Texts must have shape (B,), got {tuple(texts.shape)}.")
    decoded = tf.strings.unicode_decode(tf.strings.join([texts, "\n"]), "UTF-8", errors="replace")
    return decoded.values, tf.cast(decoded.row_splits, tf.int32)


@tf.autograph.experimental.do_not_convert
def word_pieces(code_points, row_splits, tables, unk_id, allowed=None):
    """Finds the word pieces of texts that lie end to end.

    Args:
        code_points: (N,) int32; the last one of each text is a line end.
        row_splits: (B + 1,) int32.
        tables: `Tables` of the vocabulary.
        allowed: `Tables` of the special tokens that count as such in raw text, or None.
    """
    tables = _constants(tables)
    entries = _look_up(code_points, tables.page, tables.entries)
    if allowed is not None:
        entries, given, reach = special_tokens(entries, code_points, allowed)
    entries, source = normalize(entries, code_points, tables)
    starts, ends, letters = split(entries)
    symbols = _symbol(tf.gather(entries, starts))
    first, found = longest_matches(starts, ends, symbols, letters, tables)
    starts, ends, ids, words = in_text_order(starts, ends, first, found, tf.size(entries), unk_id)
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
    kept = _where(entries > 0)

    def rare():
        order = canonical_order(_look_up(code_points, tables.rank_page, tables.ranks))
        more = _look_up(tf.gather(code_points, order), tables.more_page, tables.more)  # (N, 2)
        first = tf.expand_dims(tf.gather(entries, order), 1)
        slots = tf.reshape(tf.concat([first, tf.where(first & MORE > 0, more, 0)], 1), [-1])
        kept = _where(slots > 0)
        return tf.gather(slots, kept), kept // 3

    one_each = tf.gather(entries, kept)
    return tf.cond(tf.reduce_any(one_each & (MORE | MOVES) > 0), rare, lambda: (one_each, kept))


def canonical_order(ranks):
    """Sorts each run of marks by rank, as decomposition does; places stay, so that offsets are those of `tokenizers`.

    Returns:
        (N,) int32: which code point stands at each place.
    """
    present = _where(ranks < CLEANED)
    rank = tf.cast(tf.gather(ranks, present), tf.int64)
    run = tf.cumsum(tf.cast(tf.equal(rank, 0), tf.int64))
    order = tf.gather(present, tf.argsort(run * CLEANED + rank, stable=True))
    return tf.tensor_scatter_nd_update(tf.range(tf.size(ranks)), tf.expand_dims(present, 1), order)


def split(entries):
    """Finds the words: runs of regular characters, and isolated ones by themselves.

    Returns:
        starts, ends (W,) int32; letters (M + 1,) int32, the symbols of characters that go on a word, else BOUNDARY.
    """
    kind = entries & 3
    regular = tf.equal(kind, REGULAR)
    goes_on = regular & tf.concat([[False], regular[:-1]], 0)
    borders = _where(~goes_on)
    ends = tf.concat([borders, [tf.size(entries)]], 0)[1:]
    words = _where(tf.gather(kind, borders) >= ISOLATED)
    letters = tf.where(goes_on, _symbol(entries), BOUNDARY)
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
        done, on = _where(~walks), _where(walks)
        found = tf.gather(first, done), tf.gather(best, done)
        behind = found[0] + (found[1] & LENGTH_MASK)
        rest = tf.gather(letters, behind)
        again = _where((found[1] > 0) & (rest > BOUNDARY))
        behind = tf.gather(behind, again)
        live = (
            tf.concat([tf.gather(symbol, on), tf.gather(rest, again)], 0),
            tf.concat([tf.gather(at, on), behind], 0),
            tf.concat(
                [tf.gather(next_base, tf.gather(row, on)), tf.fill(tf.shape(again), tables.continuation_base)], 0
            ),
            tf.concat([tf.gather(first, on), behind], 0),
            tf.concat([tf.gather(best, on), tf.zeros_like(again)], 0),
        )
        return live, tf.stack(found, 1)

    def step(number, live, found):
        live, done = walk(*live)
        return number + 1, live, found.write(number, done)

    short = _where(ends - starts <= MAX_LETTERS)
    symbols, starts = tf.gather(symbols, short), tf.gather(starts, short)
    live, done = walk(symbols, starts, tf.fill(tf.shape(short), tables.word_base), starts, tf.zeros_like(short))
    found = tf.TensorArray(tf.int32, 1, dynamic_size=True, infer_shape=False, element_shape=[None, 2]).write(0, done)
    shapes = (tf.TensorShape([]), (tf.TensorShape([None]),) * 5, None)
    loop = (1, live, found)
    found = tf.while_loop(lambda number, live, found: tf.size(live[0]) > 0, step, loop, shapes, parallel_iterations=1)[
        2
    ]
    return tf.unstack(found.concat(), num=2, axis=1)


def in_text_order(starts, ends, first, found, size, unk_id):
    """Puts pieces in the order of the text; a word with a hole, or of more than MAX_LETTERS, is one unknown token.

    Args:
        starts, ends: (W,) int32 of the words; first, found: (P,) from `longest_matches`; size: M.

    Returns:
        starts, ends, ids, words: (P,) int32 of the pieces.
    """
    word_at = tf.cumsum(_spread(tf.ones_like(starts), starts, size)) - 1
    word = tf.gather(word_at, first)
    holes = _spread(tf.cast(tf.equal(found, 0), tf.int32), word, tf.size(starts))
    unknown = (holes > 0) | (ends - starts > MAX_LETTERS)
    whole, broken = _where(~tf.gather(unknown, word)), _where(unknown)
    first, found = tf.gather(first, whole), tf.gather(found, whole)
    last = tf.concat([first + (found & LENGTH_MASK), tf.gather(ends, broken)], 0)
    ids = tf.concat([tf.bitwise.right_shift(found, LENGTH_BITS), tf.fill(tf.shape(broken), unk_id)], 0)
    first = tf.concat([first, tf.gather(starts, broken)], 0)
    row = _spread(tf.range(1, tf.size(first) + 1), first, size)  # a map from places to rows
    place = _where(row > 0)
    row = tf.gather(row, place) - 1
    return place, tf.gather(last, row), tf.gather(ids, row), tf.gather(word_at, place)


def special_tokens(entries, code_points, allowed):
    """Finds allowed special tokens in raw text, leftmost and longest first, and makes each an isolated character.

    Returns:
        entries (N,) int32; given (N,) int32, the token id at the first code point of a special token, else -1;
        reach (N,) int32, the length there, else 1.
    """
    symbols = _symbol(_look_up(code_points, allowed.page, allowed.entries))
    check = tf.gather(allowed.trie[:, 0], allowed.word_base + symbols)
    starts = _where(tf.equal(check, symbols))
    symbols = tf.pad(symbols, [[0, allowed.longest]])
    base, alive = tf.fill(tf.shape(starts), allowed.word_base), tf.fill(tf.shape(starts), True)
    length, token = tf.zeros_like(starts), -tf.ones_like(starts)
    for step in range(allowed.longest):
        symbol = tf.gather(symbols, starts + step)
        check, next_base, accepted = tf.unstack(tf.gather(allowed.trie, base + symbol), num=3, axis=1)
        alive &= tf.equal(check, symbol)
        base = tf.where(alive, next_base, 0)
        hit = alive & (accepted >= 0)
        length, token = tf.where(hit, step + 1, length), tf.where(hit, accepted, token)
    found = _where(length > 0)
    starts, length, token = (tf.gather(x, found) for x in (starts, length, token))
    chosen = _where(_on_path(tf.searchsorted(starts, starts + length)))
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


def _constants(tables):
    """The arrays as tensors, made once here and not again in each loop that uses them."""
    arrays = {name: value for name, value in vars(tables).items() if not isinstance(value, int)}
    return dataclasses.replace(tables, **{name: tf.constant(value) for name, value in arrays.items()})


def _look_up(code_points, page, rows):
    page = tf.gather(page, tf.bitwise.right_shift(code_points, PAGE_BITS))
    return tf.gather(rows, page * PAGE + (code_points & PAGE - 1))


def _symbol(entries):
    return tf.bitwise.right_shift(entries, KIND_BITS)


def _spread(values, places, size):
    return tf.math.unsorted_segment_sum(values, places, size)  # 12 times as fast as scatter_nd


def _where(condition):
    return tf.cast(tf.reshape(tf.where(condition), [-1]), tf.int32)
