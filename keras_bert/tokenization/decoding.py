"""Tokens back to text: pieces joined, blanks only where a writer would put them."""

import unicodedata

CLOSING = frozenset(".,!?;:%)]}'\u2019\u201d\u00bb\u2026")
OPENING = frozenset("([{\u201c\u00ab$#@")


def tokens_of(ids, vocab, skipped=()):
    """Tokens of the ids that are not skipped.

    Raises:
        ValueError: an id is outside the vocabulary.
    """
    ids = [int(i) for i in ids]
    outside = [i for i in ids if not 0 <= i < len(vocab)]
    if outside:
        raise ValueError(f"`ids` must be at least 0 and below {len(vocab)}, got {outside[0]}.")
    return [vocab[i] for i in ids if i not in skipped]


def join_tokens(tokens):
    """Joins WordPiece tokens; no blank between Chinese or Japanese characters, nor before closing punctuation.

    What lower-casing and accent stripping took away stays away, and so does the choice of blanks round `'` and `-`:
    `'` and `-` between words are joined on both sides.
    """
    text = ""
    for token in tokens:
        if token.startswith("##") and len(token) > 2:
            text += token[2:]
        elif not text or not token or _touch(text, token):
            text += token
        else:
            text += f" {token}"
    return text


def _touch(text, token):
    last, first = text[-1], token[0]
    if _is_wide(last) and _is_wide(first):
        return True
    joined = len(text) > 1 and last in "'\u2019-" and text[-2] != " "
    closes = len(token) == 1 and (token in CLOSING or token == "-")
    return closes or last in OPENING or joined or _is_wide_punctuation(last) or _is_wide_punctuation(first)


def _is_wide(char):
    return unicodedata.east_asian_width(char) in "WF" and not "\uac00" <= char <= "\ud7a3"


def _is_wide_punctuation(char):
    return _is_wide(char) and unicodedata.category(char).startswith("P")
