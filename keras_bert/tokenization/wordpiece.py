"""Word pieces of code points with fixed shapes, in keras.ops: for TFLite, ONNX and any Keras backend.

The same stages as strings.py, over all positions at once: normalize, split, longest matches, and a greedy path by
pointer doubling instead of a loop over words. Marks are not put in canonical order: that moves offsets, and
ids only where a vocabulary holds two marks that are newer than the rules' Unicode tables.
"""

import math
import types

from keras import ops

from keras_bert.tokenization.characters import (
    CASED,
    FINAL_SIGMA,
    ISOLATED,
    NUM_CODE_POINTS,
    OTHER,
    PAGE,
    REGULAR,
    SIGMA,
    TRANSPARENT,
)
from keras_bert.tokenization.gathering import scattered, take, targets
from keras_bert.tokenization.matching import block_labels, longest_tokens
from keras_bert.tokenization.trie import KIND_BITS, LENGTH_BITS, UNKNOWN

ARRAY_OPS = types.SimpleNamespace(take=take, where=ops.where, pad=ops.pad, unstack=ops.unstack)
MOST_CHARS = 1 << 16  # among which special tokens are found where a graph does not know C


def parts_of(texts, tables, unk_id, length, allowed=None):
    """(ids, starts, lengths) of each of one or two batches of texts (B, C), with room for `length` pieces a text."""
    starts = ops.arange(ops.shape(texts[0])[0]) * length
    found = [word_pieces(code_points, tables, unk_id, length, allowed) for code_points in texts]
    return [(ids, starts, counts) for ids, counts in found]


def word_pieces(code_points, tables, unk_id, length, allowed=None):
    """Finds the first pieces of each text, and counts all.

    Args:
        code_points: (B, C) int32, 0 at padding.
        tables: `Tables` of the vocabulary.
        length: room for pieces.
        allowed: `Tables` of the special tokens that count as such in raw text, or None.

    Returns:
        ids (B * length,) int32, row by row; counts (B,) int32, which may be more than `length`.
    """
    ids, counts, _ = located_pieces(code_points, tables, unk_id, length, allowed)
    return ids, counts


def located_pieces(code_points, tables, unk_id, length, allowed=None):
    """The same, and where the pieces stand: a function without arguments, because few need it.

    It gives three (B * length,) int32: starts and ends, half-open places in the row, and the numbers of the words.
    """
    rows, chars = ops.shape(code_points)
    code_points = ops.clip(code_points, 0, NUM_CODE_POINTS - 1)
    entries = take(tables.entries, _row(code_points, tables.page))
    more = take(tables.more, _row(code_points, tables.more_page))  # (B, C, 2)
    given = None
    if allowed is not None:
        entries, more, given, reach = special_tokens(entries, more, code_points, allowed)
    if tables.case is not None:
        entries = final_sigmas(entries, code_points, tables, given)
    entries, carried = normalize(entries, more)  # (N,) with a blank after each row
    starts, goes_on = split(entries)
    symbols, inside = entries // (1 << KIND_BITS), entries % 4 >= ISOLATED
    sizes, ids = matches(ops.where(goes_on, symbols, symbols + tables.symbols), tables)
    word = ops.cumsum(ops.cast(starts, "int32"))
    starts, ids = greedy_path(starts, goes_on, inside, word, sizes, ids, unk_id, tables.max_letters)
    if given is not None:
        special = carried(given + 1) - 1
        ids = ops.where(special >= 0, special, ids)

    def places():
        here = ops.arange(chars) + ops.zeros_like(code_points)
        behind = here + (1 if given is None else reach)
        follows = goes_on & ops.logical_not(starts)
        last = inside & ops.logical_not(ops.concatenate([follows[1:], ops.zeros((1,), "bool")]))
        found = ((starts, carried(here)), (last, carried(behind)), (starts, word))
        return [emit(values, kept, rows, length)[0] for kept, values in found]

    return *emit(ids, starts, rows, length), places


def normalize(entries, more):
    """Closes up what each row keeps.

    Args:
        entries: (B, C) int32; more: (B, C, 2) int32, what follows where one code point becomes several.

    Returns:
        entries (N,), N = B (3 C + 1), and a function that takes int32 (B, C) values of the code points there, 0 behind.
    """
    rows, chars = ops.shape(entries)
    width = 3 * chars + 1
    slots = ops.concatenate([ops.expand_dims(entries, 2), more], 2)  # (B, C, 3)
    flat = (rows, 3 * chars)
    target, total = targets(ops.reshape(slots, flat) > 0, width), rows * width

    def carried(values):
        values = ops.expand_dims(values, 2) + ops.zeros_like(slots)
        return scattered(target, ops.reshape(values, flat), total)

    return scattered(target, ops.reshape(slots, flat), total), carried


def split(entries):
    """Marks where words start and where characters go on one: two bool (N,)."""
    kind = entries % 4
    regular = kind == REGULAR
    goes_on = regular & ops.concatenate([ops.zeros((1,), "bool"), regular[:-1]])
    return (kind >= ISOLATED) & ops.logical_not(goes_on), goes_on


def matches(letters, tables):
    """Finds the longest token at every place: lengths (N,) int32, 0 for none, and ids. `letters`: (N,) int32 labels."""
    labels = block_labels(ARRAY_OPS, letters, tables)
    match = longest_tokens(ARRAY_OPS, labels, ops.arange(ops.shape(letters)[0]), tables)
    return match % (1 << LENGTH_BITS), match // (1 << LENGTH_BITS)


def greedy_path(starts, goes_on, inside, word, sizes, ids, unk_id, max_letters):
    """Follows the longest matches from each word start; a word with a hole, or too long, is one unknown token.

    Returns:
        where pieces start, bool (N,), and their token ids (N,).
    """
    total = ops.shape(sizes)[0]
    jump = ops.arange(total) + sizes
    jump = ops.where((sizes > 0) & take(ops.pad(goes_on, (0, 1)), ops.minimum(jump, total)), jump, total)
    piece = reached(jump, starts, max_letters) & inside
    word = ops.where(inside, word, 0)
    begin = total - scattered(ops.where(starts, word, total + 2), total - ops.arange(total), total + 2)  # by word
    begin, end = take(begin, word), take(begin, word + 1)
    holes = ops.pad(ops.cumsum(ops.cast(piece & (sizes == 0), "int32")), (1, 0))  # before each position
    letters = ops.pad(ops.cumsum(ops.cast(goes_on, "int32")), (1, 0))
    long = take(letters, end) - take(letters, begin) >= max_letters
    unknown = (take(holes, end) > take(holes, begin)) | long
    return ops.where(unknown, starts, piece), ops.where(unknown, unk_id, ids)


def reached(jump, starts, steps):
    """Marks all positions that are at most `steps` jumps from a start; `jump` (N,) is N at the end of a path.

    Paths of different starts never meet, so that no two marked positions jump to one: ONNX adds up no duplicates.
    """
    total = ops.shape(jump)[0]
    jump = ops.concatenate([jump, ops.full((1,), total, "int32")])
    marked = ops.pad(ops.cast(starts, "int32"), (0, 1))
    for _ in range(math.ceil(math.log2(steps))):
        marked = ops.maximum(marked, scattered(ops.where(marked > 0, jump, total + 1), marked, total + 1))
        jump = take(jump, jump)
    return marked[:total] > 0


def emit(ids, starts, rows, length):
    """Closes up the pieces of each row: ids (B * length,), 0 behind the last; counts (B,)."""
    starts = ops.reshape(starts, (rows, -1))
    target = targets(starts, length)
    return scattered(target, ids, rows * length), ops.sum(ops.cast(starts, "int32"), axis=1)


def special_tokens(entries, more, code_points, allowed):
    """Finds allowed special tokens, leftmost and longest first, and makes each an isolated character.

    Returns:
        entries (B, C), more (B, C, 2); at the first code point of special tokens the token ids (B, C), else -1, and
        their lengths (B, C), else 1.
    """
    rows, chars = ops.shape(code_points)
    ended = ops.reshape(ops.pad(code_points, [[0, 0], [0, 1]]), (-1,))  # no token goes over a row's end
    total = rows * (chars + 1)
    symbols = take(allowed.entries, _row(ended, allowed.page)) // (1 << KIND_BITS)
    size, token = matches(symbols, allowed)
    place = ops.arange(total)
    steps = chars + 1 if isinstance(chars, int) else MOST_CHARS
    on_path = reached(place + ops.maximum(size, 1), place % (chars + 1) == 0, steps)
    found = on_path & (size > 0)
    ends = ops.where(found, place + size, total)
    change = ops.cast(found, "int32") - scattered(ends, ops.cast(found, "int32"), total + 1)[:total]
    hidden = (ops.cumsum(change) > 0) & ops.logical_not(found)
    found, hidden, token, size = (ops.reshape(x, (rows, chars + 1))[:, :chars] for x in (found, hidden, token, size))
    entries = ops.where(found, UNKNOWN << KIND_BITS | ISOLATED, ops.where(hidden, 0, entries))
    more = ops.where(ops.expand_dims(found | hidden, 2), 0, more)
    return entries, more, ops.where(found, token, -1), ops.where(found, size, 1)


def final_sigmas(entries, code_points, tables, given):
    """Makes each capital sigma that ends a word the final one, as in neighbours.py: entries (B, C)."""
    case = take(tables.case, _row(code_points, tables.case_page))
    if given is not None:
        case = ops.where(given >= 0, OTHER, case)
    rows, chars = ops.shape(case)
    seen = case < TRANSPARENT
    order = ops.cumsum(ops.cast(seen, "int32"), axis=1) + ops.expand_dims(ops.arange(rows) * (chars + 2), 1)
    total = rows * (chars + 2)
    classes = scattered(ops.where(seen, order, total), case, total)  # OTHER before and after each row
    before, after = take(classes, ops.maximum(order - 1, 0)), take(classes, order + 1)
    final = (code_points == SIGMA) & (before == CASED) & (after != CASED)
    page, place = divmod(FINAL_SIGMA, PAGE)
    return ops.where(final, int(tables.entries[tables.page[page] * PAGE + place]), entries)


def _row(code_points, page):
    return take(page, code_points // PAGE) * PAGE + code_points % PAGE
