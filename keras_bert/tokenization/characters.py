"""What BERT's normalization and splitting make of each Unicode code point, from tables frozen in the package.

Cleaning, lower-casing, accent stripping and splitting look at one code point at a time, so each is a table. The
tables never depend on the running interpreter's Unicode version; scripts/make_character_tables.py makes them.
"""

import functools
from pathlib import Path

import numpy as np

NUM_CODE_POINTS = 0x110000
PAGE_BITS = 7
PAGE = 1 << PAGE_BITS
GONE = -(1 << 22)  # difference that stands in the file for a dropped character
CLEANED = 255  # rank of a character that is gone before marks are put in order
DROPPED, SPACE, ISOLATED, REGULAR = range(4)
VARIANTS = {  # name in the file: lowercase, strip_accents
    "cased": (False, False),
    "lower": (True, False),
    "stripped": (False, True),
    "lower_stripped": (True, True),
}


def characters(lowercase, strip_accents, tokenize_chinese_chars):
    """Normal form, kind and place among marks of every code point.

    Returns:
        becomes (1114112, 3) int32: the one to three code points it turns into, 0 past their end;
        kinds (1114112,) uint8: DROPPED, SPACE, ISOLATED (a word by itself) or REGULAR;
        ranks (1114112,) uint8: place in canonical ordering, 0 for no mark, CLEANED where cleaning drops it.
    """
    ranks = _unfolded("rank") * strip_accents  # without decomposition nothing is put in order
    ranks[_unfolded("cased")[:, 0] == GONE] = CLEANED
    (variant,) = (name for name, rules in VARIANTS.items() if rules == (lowercase, strip_accents))
    becomes = _unfolded(variant)
    becomes[0xD800:0xE000, 0] = GONE  # lone surrogates are no characters: dropped, as U+FFFD is
    first = becomes[:, 0] + np.arange(NUM_CODE_POINTS, dtype="int32")
    first[becomes[:, 0] == GONE] = 0
    becomes[:, 0] = first
    kinds = np.full(NUM_CODE_POINTS, REGULAR, "uint8")
    kinds[_unfolded("punctuation")[first]] = ISOLATED
    if tokenize_chinese_chars:
        kinds[_unfolded("chinese")] = ISOLATED
    kinds[first == ord(" ")] = SPACE
    kinds[first == 0] = DROPPED
    return becomes, kinds, ranks


def folded(table):
    """Stores equal pages of a table (1114112, ...) once: page of each code point // PAGE, pages (P, PAGE, ...)."""
    known = {}
    which = [known.setdefault(page.tobytes(), len(known)) for page in table.reshape(NUM_CODE_POINTS // PAGE, -1)]
    pages = np.frombuffer(b"".join(known), table.dtype).reshape(len(known), PAGE, *table.shape[1:])
    return np.array(which, "uint16"), pages


def tables_source():
    """Where the frozen tables come from: the version of `tokenizers` and of Unicode."""
    return str(_file()["source"])


@functools.cache
def _file():
    with np.load(Path(__file__).with_name("characters_huggingface.npz")) as file:
        return {name: file[name] for name in file.files}


def _unfolded(name):
    rows = _file()[f"{name}_rows"]
    return rows[_file()[f"{name}_page"]].reshape(NUM_CODE_POINTS, *rows.shape[2:])
