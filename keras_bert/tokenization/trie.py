"""Tables for longest match: a double-array trie over the vocabulary, and what each code point is in it.

The trie holds the vocabulary under two roots, for word starts and for continuations (`##`). A state is its `base`:
from it, symbol `s` leads to row `base + s` if that row's `check` is `s`. No two states with children share a base.
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

BOUNDARY, UNKNOWN = 0, 1  # symbols: no letter here; a letter that is in no token
KIND_BITS = 4  # an entry is symbol << KIND_BITS | kind, and these flags:
MORE, MOVES = 4, 8  # the code point becomes several; it is a mark that is kept, which may change places with others
_WINDOW = 1024


@dataclasses.dataclass(frozen=True, eq=False)
class Tables:
    """All that the array programs need.

    Attributes:
        page (8704,) int32, entries (rows * 128,) int32: entry of a code point c is
            entries[page[c // 128] * 128 + c % 128]; 0 where it is dropped.
        more_page, more (rows * 128, 2) int32: second and third entry of code points that become several.
        rank_page, ranks (rows * 128,) int32: places in canonical ordering.
        case_page, case (rows * 128,) int32: cased or looked through, for the final sigma; None where it is no rule.
        trie (rows, 3) int32: check, base, token id or -1.
        word_base, continuation_base: the two roots; dead_base: a state that leads nowhere.
        longest: most letters in a token, the number of steps of a walk.
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
    trie: np.ndarray
    word_base: int
    continuation_base: int
    dead_base: int
    longest: int
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
    symbol[[0, ord(" ")]] = BOUNDARY
    trie, *bases = _double_array(ids, continues, lengths, symbol[letters])
    entries = symbol[becomes] << KIND_BITS | kinds[:, None]
    entries[becomes == 0] = 0
    entries[:, 0] |= np.where(becomes[:, 1] > 0, MORE, 0)
    entries[:, 0] |= np.where((becomes[:, 0] > 0) & (ranks > 0) & (ranks < CLEANED), MOVES, 0)
    return Tables(
        *_paged(entries[:, 0]),
        *_paged(entries[:, 1:]),
        *_paged(ranks),
        *((None, None) if case is None else _paged(case)),
        trie,
        *bases,
        longest=int(lengths.max(initial=1)),
        max_letters=max_letters,
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


def _double_array(ids, continues, lengths, letters):
    """Lays the tokens into rows (check, base, token id); returns them, the roots' bases, and one that leads nowhere."""
    parent, label, token = _trie_nodes(ids, continues, lengths, letters)
    width = int(label.max(initial=UNKNOWN)) + 1
    first_child = np.searchsorted(parent, np.arange(len(token) + 1))
    base, dead = _place(label, first_child, width)
    rows = np.full((max(int(base.max()), dead) + width, 3), -1, "int32")
    place = base[parent] + label
    rows[place] = np.stack([label, base[2:], token[2:]], axis=1)
    return rows, int(base[0]), int(base[1]), dead


def _trie_nodes(ids, continues, lengths, letters):
    """Makes the trie level by level: nodes 0 and 1 are the roots, node n + 2 has parent[n] and label[n].

    Children follow their parents, sorted by parent and label. `token` (nodes,) is the accepted id or -1; of equal
    tokens the last row wins.
    """
    starts = np.cumsum(lengths) - lengths
    node = continues.astype("int64")
    parents, labels, count = [np.zeros(0, "int64")], [np.zeros(0, "int64")], 2
    for depth in range(lengths.max(initial=0)):
        longer = np.flatnonzero(lengths > depth)
        edges, which = np.unique(node[longer] << 32 | letters[starts[longer] + depth], return_inverse=True)
        node[longer] = count + which
        parents.append(edges >> 32)
        labels.append(edges & 0xFFFFFFFF)
        count += len(edges)
    token = np.full(count, -1, "int64")
    token[node] = ids
    return np.concatenate(parents), np.concatenate(labels), token


def _place(label, first_child, width):
    """Gives each node a base so that no two children share a row and no two parents a base: int64 (nodes,).

    Also gives a base that leads nowhere.
    """
    children = np.diff(first_child)
    room = 2 * len(label) + 8 * width + 4 * _WINDOW
    used, taken = np.zeros(room, bool), np.zeros(room, bool)  # rows; bases
    base = np.full(len(children), -1, "int64")
    start = 0
    several = np.flatnonzero(children > 1)
    for node in several[np.argsort(-children[several], kind="stable")]:
        labels = label[first_child[node] : first_child[node + 1]]
        while True:  # the first base in a window whose rows are all free
            if start + _WINDOW + width > len(used):
                used, taken = (np.concatenate([x, np.zeros(len(x), bool)]) for x in (used, taken))
            blocked = taken[start : start + _WINDOW].copy()
            for step in labels.tolist():
                blocked |= used[start + step : start + step + _WINDOW]
            found = start + int(blocked.argmin())
            if not blocked[found - start]:
                break
            start += _WINDOW  # for good: nodes with one child fill what stays free
        base[node] = found
        taken[found] = used[found + labels] = True
    single = np.flatnonzero(children == 1)
    base, taken = _place_single(base, single, label[first_child[single]], used, taken)
    dead = int(np.flatnonzero(~taken)[0])  # no parent's base: leads nowhere
    base[children == 0] = dead
    return base, dead


def _place_single(base, nodes, labels, used, taken):
    """Fills the free rows with the nodes that have one child, all at once, and those that collide again."""
    order = np.argsort(labels, kind="stable")
    nodes, labels = nodes[order], labels[order]
    more = np.zeros(4 * (len(nodes) + int(labels.max(initial=0)) + 1), bool)
    used, taken = np.concatenate([used, more]), np.concatenate([taken, more])
    free = np.flatnonzero(~used)
    while len(nodes):
        wanted = free[: len(nodes)] - labels
        _, firsts = np.unique(wanted, return_index=True)
        placed = np.zeros(len(nodes), bool)
        placed[firsts] = True
        placed &= (wanted >= 0) & ~taken[wanted]
        base[nodes[placed]] = wanted[placed]
        taken[wanted[placed]] = True
        left = np.ones(len(free), bool)
        left[: len(nodes)] = ~placed
        free = free[left]
        if 4 * placed.sum() < len(nodes):  # low rows suit no high label: leave some of them free
            free = free[len(nodes) // 4 + 1 :]
        nodes, labels = nodes[~placed], labels[~placed]
    return base, taken


def _paged(table):
    which, pages = folded(table)
    return which.astype("int32"), pages.reshape(-1, *table.shape[1:]).astype("int32")
