"""Edges of a tree in one array, so that a step down is two look-ups.

A node has a `base`, and an edge with label l lies in row base + l, whose `check` is l. No two nodes with children share
a base, so that the check tells whether the edge is that node's. Base 0 leads nowhere.
"""

import numpy as np

_WINDOW = 4096


def double_array(parent, label, nodes, width):
    """Lays out edges, each of which comes once.

    Args:
        parent, label: (E,) int64 of the edges; labels are below `width`.
        nodes: how many there are.

    Returns:
        rows (R, 3) int32 with the checks in the first column, -1 where no edge lies, and room for two more facts; so
        many that each base + label is a row; row (E,) int64 of each edge; base (nodes,) int64.
    """
    order = np.argsort(parent * width + label)
    first_child = np.searchsorted(parent[order], np.arange(nodes + 1))
    base = _place(label[order], first_child, width)
    row = base[parent] + label
    rows = np.full((int(base.max(initial=0)) + width, 3), -1, "int32")
    rows[row, 0] = label
    return rows, row, base


def _place(label, first_child, width):
    """Gives each node a base so that no two children share a row and no two parents a base: int64 (nodes,)."""
    children = np.diff(first_child)
    room = 2 * len(label) + 8 * width + 4 * _WINDOW
    used, taken = np.zeros(room, bool), np.zeros(room, bool)  # rows; bases
    base = np.zeros(len(children), "int64")
    taken[0] = True
    start = 0
    several = np.flatnonzero(children > 1)
    for node in several[np.argsort(-children[several], kind="stable")]:
        labels = label[first_child[node] : first_child[node + 1]]
        at = start
        while True:  # the first base in a window whose rows are all free
            if at + _WINDOW + width > len(used):
                used, taken = (np.concatenate([x, np.zeros(len(x), bool)]) for x in (used, taken))
            blocked = taken[at : at + _WINDOW].copy()
            for step in labels.tolist():
                blocked |= used[at + step : at + step + _WINDOW]
            found = at + int(blocked.argmin())
            if not blocked[found - at]:
                break
            if at == start and 2 * np.count_nonzero(used[at : at + _WINDOW]) > _WINDOW:
                start += _WINDOW  # for good: nodes with one child fill what stays free
            at += _WINDOW
        base[node] = found
        taken[found] = used[found + labels] = True
    single = np.flatnonzero(children == 1)
    _place_single(base, single, label[first_child[single]], used, taken)
    return base


def _place_single(base, nodes, labels, used, taken):
    """Fills the free rows with the nodes that have one child, many at once, and those that collide again.

    A row must be at least the label. Falling labels on rising rows give bases that differ from each other.
    """
    more = np.zeros(4 * (len(nodes) + int(labels.max(initial=0)) + 1), bool)
    used, taken = np.concatenate([used, more]), np.concatenate([taken, more])
    free = np.flatnonzero(~used)
    octaves = np.frexp(labels)[1]
    for octave in np.unique(octaves):  # small labels first, so that they take the low rows
        group = np.flatnonzero(octaves == octave)
        group = group[np.argsort(-labels[group])]
        begin = np.searchsorted(free, labels[group[:1]])[0]
        while len(group):
            rows = free[begin : begin + len(group)]
            wanted = rows - labels[group]
            placed = ~taken[wanted]
            base[nodes[group[placed]]] = wanted[placed]
            taken[wanted[placed]] = True
            free = np.delete(free, begin + np.flatnonzero(placed))
            group = group[~placed]
            begin += 0 if placed.any() else len(rows)
