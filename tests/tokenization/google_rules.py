"""Google's original rules as a plain loop, written from what google-research/bert's tokenization.py does.

It shares nothing with the package: it asks `str.lower`, `str.split`, `unicodedata` and a dict.
"""

import unicodedata

CHINESE = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F)]
CHINESE += [(0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]


def tokenize(text, ids, lowercase=True):
    """Tokens of one text; `ids` is a dict of the vocabulary."""
    spaced = []
    for char in text:
        if char in "\t\n\r" or unicodedata.category(char) == "Zs":
            spaced.append(" ")
        elif char in "\0\ufffd" or unicodedata.category(char) in ("Cc", "Cf"):
            continue
        elif any(low <= ord(char) <= high for low, high in CHINESE):
            spaced.append(f" {char} ")
        else:
            spaced.append(char)
    tokens = []
    for chunk in "".join(spaced).split():
        if lowercase:
            decomposed = unicodedata.normalize("NFD", chunk.lower())
            chunk = "".join(char for char in decomposed if unicodedata.category(char) != "Mn")
        for word in "".join(f" {char} " if _is_punctuation(char) else char for char in chunk).split():
            tokens += _pieces(word, ids)
    return tokens


def _is_punctuation(char):
    code = ord(char)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return unicodedata.category(char).startswith("P")


def _pieces(word, ids):
    if len(word) > 200:
        return ["[UNK]"]
    pieces, start = [], 0
    while start < len(word):
        ends = range(len(word), start, -1)
        candidates = ((end, word[start:end] if start == 0 else "##" + word[start:end]) for end in ends)
        start, piece = next(((end, piece) for end, piece in candidates if piece in ids), (0, None))
        if piece is None:
            return ["[UNK]"]
        pieces.append(piece)
    return pieces
