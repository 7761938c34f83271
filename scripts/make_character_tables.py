"""Makes the frozen character tables of the `huggingface` rules by asking `tokenizers` about every code point.

python scripts/make_character_tables.py            writes keras_bert/tokenization/characters_huggingface.npz
"""

import importlib.metadata
from pathlib import Path

import numpy as np
from tokenizers.normalizers import NFD, BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from keras_bert.tokenization.characters import GONE, NUM_CODE_POINTS, VARIANTS, folded

TARGET = Path(__file__).resolve().parents[1] / "keras_bert" / "tokenization" / "characters_huggingface.npz"
SEPARATOR = "|"  # a starter that every rule leaves as it is, so that one call can ask about all characters
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


def make_tables():
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


if __name__ == "__main__":
    np.savez_compressed(TARGET, **make_tables())
    print(f"{TARGET.name}: {TARGET.stat().st_size:,} bytes")
