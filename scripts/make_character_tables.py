"""Makes the frozen character tables: `huggingface` by asking `tokenizers`, `google` by asking Unicode's database.

python scripts/make_character_tables.py      writes keras_bert/tokenization/characters_{huggingface,google}.npz

The `google` tables are those of Unicode 14.0.0, which is in Python 3.11: run it there.
"""

import importlib.metadata
import unicodedata
from pathlib import Path

import numpy as np
from tokenizers.normalizers import NFD, BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from keras_bert.tokenization.characters import CASED, GONE, NUM_CODE_POINTS, TRANSPARENT, VARIANTS, folded

FOLDER = Path(__file__).resolve().parents[1] / "keras_bert" / "tokenization"
UNICODE = "14.0.0"
SEPARATOR = "|"  # a starter that every rule leaves as it is, so that one call can ask about all characters
GOOGLE_CHINESE = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F)]
GOOGLE_CHINESE += [(0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]
# The newest characters that each part of `tokenizers` knows, found by asking, name the Unicode versions in it.
SOURCE = "tokenizers {} (lower-casing: Unicode 17.0; categories and decomposition: older tables compiled into it)"


def ask_normalizer(**rules):
    """Normal form of every code point that can stand in a text: dict code point -> string."""
    code_points = [c for c in range(1, NUM_CODE_POINTS) if not 0xD800 <= c < 0xE000 and c != ord(SEPARATOR)]
    text = SEPARATOR.join(map(chr, code_points))
    answers = BertNormalizer(clean_text=True, **rules).normalize_str(text).split(SEPARATOR)
    return {ord(SEPARATOR): SEPARATOR, **dict(zip(code_points, answers, strict=True))}


def ask_punctuation():
    """Whether `tokenizers` splits a character off its neighbours: bool (code points,)."""
    code_points = [c for c in range(1, NUM_CODE_POINTS) if not 0xD800 <= c < 0xE000]
    alone = np.zeros(NUM_CODE_POINTS, bool)
    for chunk in np.array_split(code_points, 100):
        pieces = BertPreTokenizer().pre_tokenize_str(" ".join(f"a{chr(c)}a" for c in chunk))
        for word, (start, _) in pieces:
            if start % 4 == 1 and word != "a" and not word.isspace():
                alone[chunk[start // 4]] = True
    return alone


def ask_ranks():
    """Canonical ordering: 0 for starters, else the rank of the combining class: uint8 (code points,).

    Decomposition sorts a run of marks by class, so that which of two comes first tells the order of their classes.
    What decomposes counts by its first part.
    """

    def first_after_a(texts):
        return [text[1] for text in NFD().normalize_str(SEPARATOR.join(f"a{text}" for text in texts)).split(SEPARATOR)]

    code_points = [c for c in range(1, NUM_CODE_POINTS) if not 0xD800 <= c < 0xE000 and c != ord(SEPARATOR)]
    leads = first_after_a(map(chr, code_points))
    above_lowest = first_after_a(f"{chr(c)}\u0334" for c in code_points)  # U+0334 has the lowest class, 1
    below_acute = first_after_a(f"\u0301{chr(c)}" for c in code_points)  # U+0301 has a high one, 230
    is_mark = [low == "\u0334" or acute != "\u0301" for low, acute in zip(above_lowest, below_acute, strict=True)]
    marks = sorted({lead for lead, mark in zip(leads, is_mark, strict=True) if mark})
    ranks = {}
    for mark in marks:
        firsts = first_after_a(f"{mark}{other}" for other in marks)
        ranks[mark] = sum(first != mark for first in firsts)  # marks of lower classes
    dense = {count: rank for rank, count in enumerate(sorted(set(ranks.values())), 1)}
    table = np.zeros(NUM_CODE_POINTS, "uint8")
    for c, lead in zip(code_points, leads, strict=True):
        table[c] = dense[ranks[lead]] if lead in ranks else 0
    return table


def table_of(answers):
    """Difference of each code point's normal form from itself: int32 (code points, 3), 0 past its end.

    The first column is GONE at characters that are dropped. Differences make most pages equal.
    """
    becomes = np.zeros((NUM_CODE_POINTS, 3), "int32")
    becomes[0, 0] = GONE
    for code_point, text in answers.items():
        if not text:
            becomes[code_point, 0] = GONE
        elif text != chr(code_point):
            becomes[code_point, : len(text)] = [ord(char) for char in text]
            becomes[code_point, 0] -= code_point
    return becomes


def make_huggingface_tables():
    """All arrays of the file, by name."""
    arrays = {"source": np.array(SOURCE.format(importlib.metadata.version("tokenizers")))}
    punctuation = ask_punctuation()
    arrays["punctuation_page"], arrays["punctuation_rows"] = folded(punctuation)
    for name, (lowercase, strip_accents) in VARIANTS.items():
        answers = ask_normalizer(handle_chinese_chars=False, lowercase=lowercase, strip_accents=strip_accents)
        for code_point, text in answers.items():
            if len(text) > 1 and any(punctuation[ord(char)] or char.isspace() for char in text):
                raise AssertionError(f"U+{code_point:04X} becomes several characters of different kinds.")
        arrays[f"{name}_page"], arrays[f"{name}_rows"] = folded(table_of(answers))
    chinese = np.zeros(NUM_CODE_POINTS, bool)  # the last variant, lower_stripped, is the one to compare with
    for code_point, text in ask_normalizer(handle_chinese_chars=True, lowercase=True, strip_accents=True).items():
        chinese[code_point] = text != answers[code_point]
        if text not in (answers[code_point], f" {answers[code_point]} "):
            raise AssertionError(f"U+{code_point:04X}: more than blanks round Chinese characters differs.")
    arrays["chinese_page"], arrays["chinese_rows"] = folded(chinese)
    arrays["rank_page"], arrays["rank_rows"] = folded(ask_ranks())
    return arrays


def google_form(char, lowercase, strip_accents):
    """What google-research/bert's tokenization.py makes of one character that stays."""
    if char in "\t\n\r" or unicodedata.category(char) in ("Zs", "Zl", "Zp"):
        return " "
    char = char.lower() if lowercase else char
    if strip_accents:
        char = "".join(c for c in unicodedata.normalize("NFD", char) if unicodedata.category(c) != "Mn")
    return char


def case_class(char):
    """CASED, TRANSPARENT or OTHER (0) for the final sigma, asked of `str.lower`."""
    if (char + "\u03a3").lower().endswith("\u03c2"):
        return CASED
    return TRANSPARENT if ("a" + char + "\u03a3").lower().endswith("\u03c2") else 0


def make_google_tables():
    """All arrays of the file, by name; beside those of `huggingface`, `case`."""
    if unicodedata.unidata_version != UNICODE:
        raise ValueError(
            f"The tables are those of Unicode {UNICODE}, got {unicodedata.unidata_version}: use Python 3.11."
        )
    chars = [chr(c) for c in range(NUM_CODE_POINTS)]
    categories = [unicodedata.category(char) for char in chars]
    ascii_marks = {*range(33, 48), *range(58, 65), *range(91, 97), *range(123, 127)}
    chinese = np.zeros(NUM_CODE_POINTS, bool)
    for low, high in GOOGLE_CHINESE:
        chinese[low : high + 1] = True
    dropped = np.array([category in ("Cc", "Cf") for category in categories])
    dropped[[0, 0xFFFD]] = True
    dropped[[ord(char) for char in "\t\n\r"]] = False
    case = np.array([case_class(char) for char in chars], "uint8")
    case[dropped] = TRANSPARENT
    classes = [unicodedata.combining(unicodedata.normalize("NFD", char)[0]) for char in chars]
    dense = {number: rank for rank, number in enumerate(sorted(set(classes)))}
    tables = {
        "punctuation": np.array([c in ascii_marks or categories[c].startswith("P") for c in range(NUM_CODE_POINTS)]),
        "chinese": chinese,
        "case": case,
        "rank": np.array([dense[number] for number in classes], "uint8"),
    }
    for name, settings in VARIANTS.items():
        forms = {c: "" if dropped[c] else google_form(chars[c], *settings) for c in range(1, NUM_CODE_POINTS)}
        tables[name] = table_of(forms)
    arrays = {"source": np.array(f"google-research/bert's rules on Unicode {UNICODE}")}
    for name, table in tables.items():
        arrays[f"{name}_page"], arrays[f"{name}_rows"] = folded(table)
    return arrays


if __name__ == "__main__":
    for rules, make in (("huggingface", make_huggingface_tables), ("google", make_google_tables)):
        target = FOLDER / f"characters_{rules}.npz"
        np.savez_compressed(target, **make())
        print(f"{target.name}: {target.stat().st_size:,} bytes")
