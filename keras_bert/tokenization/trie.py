"""Tables for longest match: a trie over the vocabulary that is walked by blocks, and what each code point is in it.

A block is 1, 2 or 4 letters that stand in a token at a multiple of their number; each has a label. A prefix of 11
letters is reached from the root by its blocks of 4, 4, 2 and 1: a walk has fewer steps than letters. Letters that begin
a word have labels of their own: this tells `un` from `##un`.
"""

import dataclasses

import numpy as np

from keras_bert.tokenization.characters import (
    CLEANED,
    ISOLATED,
    MAX_LETTERS,
    NUM_CODE_POINTS,
    REGULAR,
    case_classes,
    characters,
    folded,
)
from keras_bert.tokenization.double_array import double_array

NONE, UNKNOWN = 0, 1  # symbols: no letter, and label of no block; a letter that is in no token
KIND_BITS = 4  # an entry is symbol << KIND_BITS | kind, and these flags:
MORE, MOVES = 4, 8  # the code point becomes several; it is a mark that is kept, which may change places with others
SIZES = 3  # of blocks: 1, 2, 4 letters
LENGTH_BITS = 8  # a match is token id << LENGTH_BITS | length, and no match has more than 200 letters
LENGTH_MASK = (1 << LENGTH_BITS) - 1


@dataclasses.dataclass(frozen=True, eq=False)
class Tables:
    """All that the array programs need.

    Attributes:
        page (8704,) int32, entries (rows * 128,) int32: entry of a code point c is
            entries[page[c // 128] * 128 + c % 128]; 0 where it is dropped.
        more_page, more (rows * 128, 2) int32: second and third entry of code points that become several.
        rank_page, ranks (rows * 128,) int32: places in canonical ordering.
        case_page, case (rows * 128,) int32: cased or looked through, for the final sigma; None where it is no rule.
        steps: sizes of the blocks that a walk tries one after the other, as powers of two.
        symbols: how many symbols there are; a letter's label is its symbol, at a word's start plus `symbols`.
        letter_base, letter_match (2 * symbols,) int32: where the blocks of two letters that begin with a letter lie;
            its id as a token << LENGTH_BITS | 1, or 0.
        blocks (rows, 3) int32: check, base and label in the double array of the blocks of two halves.
        nodes (rows, 3) int32: check, base and match in that of the prefixes of tokens; a match is the longest token
            that a prefix begins with, id << LENGTH_BITS | length, or 0.
        root_base: where the prefixes of one block lie.
        max_letters: a longer word is one unknown token.
    """

    page: np.ndarray
    entries: np.ndarray
    more_page: np.ndarray
    more: np.ndarray
    rank_page: np.ndarray
    ranks: np.ndarray
    case_page: np.ndarray | None
    case: np.ndarray | None
    steps: tuple[int, ...]
    symbols: int
    letter_base: np.ndarray
    letter_match: np.ndarray
    blocks: np.ndarray
    nodes: np.ndarray
    root_base: int
    max_letters: int


def vocabulary_tables(tokenizer):
    """Builds the tables of a tokenizer's vocabulary under its settings."""
    lowercase, strip_accents = tokenizer.lowercase, tokenizer.strip_accents
    strip_accents = lowercase if strip_accents is None else strip_accents
    settings = tokenizer.tokenize_chinese_chars, tokenizer.rules, tokenizer.clean_text
    case = case_classes(tokenizer.rules) if lowercase else None
    tables = characters(lowercase, strip_accents, *settings)
    return build_tables(tokenizer.vocab, *tables, case, MAX_LETTERS[tokenizer.rules])


def build_tables(vocab, becomes, kinds, ranks, case=None, max_letters=100):
    """Builds the tables of a vocabulary; the other arguments are what `characters` and `case_classes` give."""
    ids, continues, lengths, letters = _matchable(vocab, becomes, kinds, max_letters)
    alphabet = np.unique(letters)
    symbol = np.full(NUM_CODE_POINTS, UNKNOWN, "int32")
    symbol[alphabet] = np.arange(2, len(alphabet) + 2)
    symbol[0] = NONE
    entries = symbol[becomes] << KIND_BITS | kinds[:, None]
    entries[becomes == 0] = 0
    entries[:, 0] |= np.where(becomes[:, 1] > 0, MORE, 0)
    entries[:, 0] |= np.where((becomes[:, 0] > 0) & (ranks > 0) & (ranks < CLEANED), MOVES, 0)
    symbols = len(alphabet) + 2
    labels = symbol[letters].astype("int64")
    labels[(np.cumsum(lengths) - lengths)[~continues]] += symbols
    blocks, *halves = _blocks(labels, lengths, 2 * symbols)
    parents, edges, matches = _nodes(blocks, lengths, ids)
    letter_base, block_rows = _block_rows(*halves, 2 * symbols)
    nodes, root_base = _node_rows(parents, edges, matches, 2 * symbols + len(halves[0]))
    letter_match = np.zeros(2 * symbols, "int32")
    single = (parents == 0) & (edges < 2 * symbols)
    letter_match[edges[single]] = matches[1:][single]
    return Tables(
        *_paged(entries[:, 0]),
        *_paged(entries[:, 1:]),
        *_paged(ranks),
        *((None, None) if case is None else _paged(case)),
        _steps(int(lengths.max(initial=1))),
        symbols,
        letter_base,
        letter_match,
        block_rows,
        nodes,
        root_base,
        max_letters,
    )


def _matchable(vocab, becomes, kinds, max_letters):
    """Leaves out tokens that no text can give: isolated or never made characters in them, too long, empty.

    Returns:
        ids (N,), continues (N,) bool, lengths (N,) of the tokens in order of their rows; their letters in one array.
    """
    regular, isolated = np.zeros((2, NUM_CODE_POINTS), bool)
    regular[becomes[kinds == REGULAR]] = True
    isolated[becomes[kinds == ISOLATED]] = True
    regular[0] = isolated[0] = False
    continues = np.array([len(token) > 2 and token.startswith("##") for token in vocab], bool)
    texts = [token[2:] if cut else token for token, cut in zip(vocab, continues, strict=True)]
    lengths = np.array([len(text) for text in texts], "int64")
    letters = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), "int32")
    ends = np.cumsum(lengths)
    regular_before = np.concatenate([[0], np.cumsum(regular[letters])])
    possible = regular_before[ends] - regular_before[ends - lengths] == lengths
    single = np.flatnonzero((lengths == 1) & ~continues)
    possible[single] |= isolated[letters[ends[single] - 1]]
    possible &= (lengths > 0) & (lengths <= max_letters)
    ids = np.flatnonzero(possible)
    return ids, continues[ids], lengths[ids], letters[np.repeat(possible, lengths)]


def _steps(longest):
    """Which sizes of blocks to try so that every prefix of `longest` letters can be reached, as powers of two."""
    last = SIZES - 1
    return (last,) * (longest >> last) + tuple(size for size in reversed(range(last)) if longest >> size)


def _blocks(labels, lengths, count):
    """Gives a label to each block, from `count` on: halves that come together make a block of twice the size.

    Args:
        labels: (L,) int64 of the tokens' letters, end to end; lengths: (N,) of the tokens.

    Returns:
        a list with, for each size, where each token's blocks begin (N,) and the labels of all blocks, end to end;
        left half (E,), right half (E,) of the blocks of two letters and more, in order of their labels; below which
        label all blocks are that a text may have for a half.
    """
    blocks, halves = [(np.cumsum(lengths) - lengths, labels)], [np.zeros(0, "int64")]
    for size in range(1, SIZES):
        counts = lengths >> size
        begins = np.cumsum(counts) - counts
        before, smaller = blocks[-1]
        token = np.repeat(np.arange(len(lengths)), counts)
        left = before[token] + 2 * (np.arange(len(token)) - begins[token])
        found, which = np.unique(smaller[left] << 32 | smaller[left + 1], return_inverse=True)
        blocks.append((begins, count + which))
        halves.append(found)
        largest = count
        count += len(found)
    halves = np.concatenate(halves)
    return blocks, halves >> 32, halves & 0xFFFFFFFF, largest


def _nodes(blocks, lengths, ids):
    """Makes the trie: node 0 is the root, node e + 1 is where edge e leads.

    Returns:
        parent (E,), label (E,) of the edges; longest token (E + 1,) that each node begins with, 0 for none. Of equal
        tokens the last row wins.
    """
    node = np.zeros((int(lengths.max(initial=0)) + 1, len(lengths)), "int64")  # of each prefix of each token
    edges, count = [np.zeros(0, "int64")], 1
    for depth in range(1, len(node)):
        longer = np.flatnonzero(lengths >= depth)
        last = min(depth & -depth, 1 << SIZES - 1)  # letters of the prefix's last block
        begins, labels = blocks[last.bit_length() - 1]
        label = labels[begins[longer] + depth // last - 1]
        found, which = np.unique(node[depth - last, longer] << 32 | label, return_inverse=True)
        node[depth, longer] = count + which
        edges.append(found)
        count += len(found)
    token, match = np.full(count, -1, "int64"), np.zeros(count, "int64")
    token[node[lengths, np.arange(len(lengths))]] = ids
    for depth in range(1, len(node)):
        longer = np.flatnonzero(lengths >= depth)
        here, shorter = node[depth, longer], node[depth - 1, longer]
        match[here] = np.where(token[here] >= 0, token[here] << LENGTH_BITS | depth, match[shorter])
    edges = np.concatenate(edges)
    return edges >> 32, edges & 0xFFFFFFFF, match


def _block_rows(left, right, width, letters):
    """letter_base and blocks of `Tables`; labels below `letters` are those of letters."""
    count = letters + len(left)
    rows, row, base = double_array(left, right, count, width)
    rows[row, 1:] = np.stack([base[letters:], np.arange(letters, count)], axis=1)
    return base[:letters].astype("int32"), rows


def _node_rows(parent, label, match, width):
    """nodes and root_base of `Tables`."""
    rows, row, base = double_array(parent, label, len(match), width)
    rows[row, 1:] = np.stack([base[1:], match[1:]], axis=1)
    return rows, int(base[0])


def _paged(table):
    which, pages = folded(table)
    return which.astype("int32"), pages.reshape(-1, *table.shape[1:]).astype("int32")
