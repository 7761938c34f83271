"""What BERT's normalization and splitting make of each Unicode code point, from tables frozen in the package.

Cleaning, lower-casing, accent stripping and splitting look at one code point at a time, so each is a table; only the
order of marks and the final sigma look at neighbours. There is a set of tables for each set of rules: `huggingface`,
made by asking `tokenizers`, and `google`, the rules of google-research/bert on one version of Unicode. They never
depend on the running interpreter's Unicode version; scripts/make_character_tables.py makes them.
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
OTHER, CASED, TRANSPARENT = range(3)  # for the final sigma: neither, a cased letter, looked through
SIGMA, FINAL_SIGMA = 0x3A3, 0x3C2
MAX_LETTERS = {"huggingface": 100, "google": 200}  # by rules: a longer word is one [UNK]
VARIANTS = {  # name in the file: lowercase, strip_accents
    "cased": (False, False),
    "lower": (True, False),
    "stripped": (False, True),
    "lower_stripped": (True, True),
}


def characters(lowercase, strip_accents, tokenize_chinese_chars, rules="huggingface", clean_text=True):
    """Normal form, kind and place among marks of every code point.

    Returns:
        becomes (1114112, 3) int32: the one to three code points it turns into, 0 past their end;
        kinds (1114112,) uint8: DROPPED, SPACE, ISOLATED (a word by itself) or REGULAR;
        ranks (1114112,) uint8: place in canonical ordering, 0 for no mark, CLEANED where cleaning drops it.
    """
    ranks = _unfolded("rank", rules) * strip_accents  # without decomposition nothing is put in order
    cleaned = _unfolded("cased", rules)[:, 0] == GONE
    (variant,) = (name for name, settings in VARIANTS.items() if settings == (lowercase, strip_accents))
    becomes = _unfolded(variant, rules)
    if clean_text:
        ranks[cleaned] = CLEANED
    else:  # what cleaning would drop stays; of it, `tokenizers` takes these for blanks
        becomes[cleaned, 0] = 0
        for blank in (0x0B, 0x0C, 0x85):
            becomes[blank, 0] = ord(" ") - blank
    becomes[0xD800:0xE000, 0] = GONE  # lone surrogates are no characters: dropped, as U+FFFD is
    first = becomes[:, 0] + np.arange(NUM_CODE_POINTS, dtype="int32")
    first[becomes[:, 0] == GONE] = 0
    becomes[:, 0] = first
    kinds = np.full(NUM_CODE_POINTS, REGULAR, "uint8")
    kinds[_unfolded("punctuation", rules)[first]] = ISOLATED
    if tokenize_chinese_chars:
        kinds[_unfolded("chinese", rules)] = ISOLATED
    kinds[first == ord(" ")] = SPACE
    kinds[first == 0] = DROPPED
    return becomes, kinds, ranks


def case_classes(rules):
    """Whether each code point is cased, for the final sigma: uint8 (1114112,); None where the rules have none."""
    return _unfolded("case", rules) if rules == "google" else None


def folded(table):
    """Stores equal pages of a table (1114112, ...) once: page of each code point // PAGE, pages (P, PAGE, ...)."""
    known = {}
    which = [known.setdefault(page.tobytes(), len(known)) for page in table.reshape(NUM_CODE_POINTS // PAGE, -1)]
    pages = np.frombuffer(b"".join(known), table.dtype).reshape(len(known), PAGE, *table.shape[1:])
    return np.array(which, "uint16"), pages


def tables_source(rules="huggingface"):
    """Where the frozen tables come from: the version of `tokenizers` and of Unicode."""
    return str(_file(rules)["source"])


@functools.cache
def _file(rules):
    with np.load(Path(__file__).with_name(f"characters_{rules}.npz")) as file:
        return {name: file[name] for name in file.files}


def _unfolded(name, rules):
    rows = _file(rules)[f"{name}_rows"]
    return rows[_file(rules)[f"{name}_page"]].reshape(NUM_CODE_POINTS, *rows.shape[2:])
