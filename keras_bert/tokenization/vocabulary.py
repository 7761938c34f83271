"""Reading and writing vocab.txt, where a token's id is its line number."""

import warnings
from pathlib import Path

from keras_bert.files import replace_file

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def read_vocab(path):
    """Reads a vocabulary file without losing or shifting a row.

    Lines end at LF or CRLF only: U+2028, U+0085 and blanks are tokens or parts of them. Blank and repeated lines keep
    their row. One byte order mark at the start is removed.

    Returns:
        tuple of str, one a line.

    Raises:
        ValueError: the file is empty or not UTF-8.
    """
    data = Path(path).read_bytes()
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path} must be UTF-8, got byte 0x{data[error.start]:02x} in line {line}.") from None
    if not text:
        raise ValueError(f"{path} must hold one token a line, got an empty file.")
    return tuple(line.removesuffix("\r") for line in text.removesuffix("\n").split("\n"))


def write_vocab(vocab, path):
    """Writes one token a line, each ended by LF, so that `read_vocab` gives the same rows.

    Raises:
        ValueError: a token holds a line feed, or ends in a carriage return.
    """
    for row, token in enumerate(vocab):
        if "\n" in token or token.endswith("\r"):
            raise ValueError(f"A token of vocab.txt must not hold a line end, got {token!r} in row {row}.")
    with replace_file(path) as temporary:
        temporary.write_bytes("".join(f"{token}\n" for token in vocab).encode("utf-8"))


def ids_of(vocab):
    """Id of every token, a dict; of equal tokens the last one counts.

    Raises:
        ValueError: the vocabulary is empty, or lacks [PAD], [UNK], [CLS] or [SEP].
    """
    ids = {token: row for row, token in enumerate(vocab)}
    missing = [token for token in SPECIAL_TOKENS[:4] if token not in ids]
    if missing:
        raise ValueError(
            f"The vocabulary must hold [PAD], [UNK], [CLS] and [SEP], got {len(vocab)} tokens "
            f"without {', '.join(missing)}."
        )
    return ids


def warn_of_long_tokens(vocab, max_letters, added_tokens):
    """Says which tokens no text can give, because a word of so many letters is one [UNK]; they keep their ids."""
    texts = ((row, token.removeprefix("##")) for row, token in enumerate(vocab) if token not in added_tokens)
    long = [row for row, text in texts if len(text) > max_letters]
    if long:
        warnings.warn(
            f"A token must have at most {max_letters} letters to be found in a text, got {len(long)} longer ones, the "
            f"first in row {long[0]} with {len(vocab[long[0]])}. They keep their ids.",
            stacklevel=3,
        )


def required_id(token, token_ids):
    """Id of a token that not every vocabulary has."""
    if token not in token_ids:
        raise ValueError(f"The vocabulary must hold {token} for this, got {len(token_ids)} tokens without it.")
    return token_ids[token]
