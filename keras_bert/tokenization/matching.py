"""Longest matches at many places at once, by the blocks of trie.py; written once for TensorFlow and for keras.ops."""


def block_labels(ops, letters, tables):
    """Finds out which blocks of 1, 2 and 4 letters begin at each place.

    Args:
        letters: (N,) int32 labels of single letters, of unknown ones at word ends.

    Returns:
        list of (N,) int32, a label for each size; 0 where no token has the block.
    """
    labels, base = [letters], ops.take(tables.letter_base, letters)
    for size in range(max(tables.steps)):
        right = ops.pad(labels[-1], [[0, 1 << size]])[1 << size :]
        check, next_base, label = ops.unstack(ops.take(tables.blocks, base + right), axis=1)
        known = check == right
        labels.append(ops.where(known, label, 0))
        base = ops.where(known, next_base, 0)  # leads nowhere
    return labels


def longest_tokens(ops, labels, places, tables):
    """Finds the longest token that begins at each place: token id << LENGTH_BITS | length (P,) int32, or 0.

    The trie holds every prefix of a token, so that the longest one is found by trying the largest block first.

    Args:
        labels: list of (N,) int32 from `block_labels`; places: (P,) int32.
    """
    base, match = tables.root_base, 0
    for size in tables.steps:
        label = ops.take(labels[size], places)
        check, next_base, longer = ops.unstack(ops.take(tables.nodes, base + label), axis=1)
        found = check == label
        base, match = ops.where(found, next_base, base), ops.where(found, longer, match)
        places = ops.where(found, places + (1 << size), places)
    return match
