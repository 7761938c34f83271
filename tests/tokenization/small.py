"""A small vocabulary, hard strings, and BERT's tokenizer again as a plain loop over characters.

The loop shares nothing with the package: it asks `unicodedata` and a dict. Its strings stay in blocks whose properties
no Unicode version since 8 has changed.
"""

import random
import unicodedata

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = "un wonder the quick café cafe hacia hacía ß straße i ii é ο ς σ привет 中 国 中国".split()
WORDS += "! ? , . ' - `` ¿ ， ！ ① … ﬁ".split()
PIECES = [f"##{piece}" for piece in "able aff ful ly f a é e s ß г ривет ς σ 国 ii ff able able".split()]
LETTERS = [*"abcdeftuwxyz01", *(f"##{letter}" for letter in "abcdefghklmnopqrstu01é")]
VOCAB = [*SPECIAL, "[unused1]", *WORDS, *PIECES, *LETTERS]

# Lower-casing, accents, Chinese characters: a covering subset; the whole product is slow.
SETTINGS = [(True, None, True), (True, False, False), (False, True, True), (False, None, False)]

_BLOCKS = [(32, 126)] * 5 + [
    (0, 0x17F),
    (0x300, 0x345),
    (0x391, 0x3C9),
    (0x410, 0x44F),
    (0x4E00, 0x4E40),
    (0xAC00, 0xAC40),
]
_BLOCKS += [(0x2000, 0x2064), (0x3000, 0x3003), (0xFF01, 0xFF60), (0x1F600, 0x1F640), (0xE000, 0xE010)]
_CJK = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0xF900, 0xFAFF)]


def hard_strings(count, seed=0):
    """Random strings over blocks that make trouble, mixed with words of the vocabulary."""
    rng = random.Random(seed)

    def part():
        if rng.random() < 0.3:
            return rng.choice([*WORDS, "unaffable", "wonderful", " ", "[MASK]", "\u00ad", "\t"])
        return chr(rng.randint(*rng.choice(_BLOCKS)))

    return ["".join(part() for _ in range(rng.randint(0, 24))) for _ in range(count)]


def tokenize(text, vocab, lowercase, strip_accents, chinese):
    """Tokens of one text."""
    ids = {token: row for row, token in enumerate(vocab)}
    chars = []
    for char in text:
        category = unicodedata.category(char)
        if char in "\t\n\r" or category in ("Zs", "Zl", "Zp"):
            chars.append(" ")
        elif category not in ("Cc", "Cf", "Co") and char != "\ufffd":
            cjk = chinese and any(low <= ord(char) <= high for low, high in _CJK)
            chars.append(f" {char} " if cjk else char)
    text = "".join(chars)
    if strip_accents:
        text = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
    if lowercase:
        text = "".join(char.lower() for char in text)
    words = [""]
    for char in text:
        punctuation = (33 <= ord(char) <= 126 and not char.isalnum()) or unicodedata.category(char).startswith("P")
        if char == " ":
            words.append("")
        elif punctuation:
            words += [char, ""]
        else:
            words[-1] += char
    return [token for word in words if word for token in _pieces(word, ids)]


def _pieces(word, ids):
    start, pieces = 0, []
    while start < len(word) <= 100:
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in ids:
                pieces.append(piece)
                break
        else:
            return ["[UNK]"]
        start = end
    return pieces or ["[UNK]"]
