"""Shorter and longer tables of position embeddings."""

import numpy as np

SHARE = 0.4  # of the coarse part in a new row


def resized(table, rows, offset=0):
    """Gives a table of `rows` rows: the first ones, or all and new ones behind them.

    Position i n + j of a longer table, n being the old length, is made of rows i and j of the old one:
    0.4 u_i + 0.6 u_j, with u_i = (p_i - 0.4 p_0) / 0.6. For i = 0 that is p_j itself, and every new row is another one.

    Args:
        table: (rows, E), of which the first `offset` are no positions.

    Raises:
        ValueError: longer than n squared positions.

    Source: Su Jianlin 2020, hierarchical decomposition of positions (kexue.fm/archives/7947), with its alpha of 0.4.
    """
    if rows <= len(table):
        return table[:rows]
    old = np.asarray(table[offset:], "float32")
    n = len(old)
    if rows - offset > n * n:
        raise ValueError(f"`max_position_embeddings` must be at most {offset + n * n} here, got {rows}.")
    parts = (old - SHARE * old[0]) / (1 - SHARE)
    i, j = np.divmod(np.arange(n, rows - offset), n)
    new = SHARE * parts[i] + (1 - SHARE) * parts[j]
    return np.concatenate([table, new.astype(table.dtype)])
