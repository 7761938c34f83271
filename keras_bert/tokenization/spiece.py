"""SentencePiece model files, as ALBERT has them, read into an object of the `tokenizers` library."""

import struct

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # kinds of pieces
UNIGRAM, WORD = 1, 3  # kinds of models
BLANKS = ((" {2,}", " "), (r"\A | \z", ""))  # `Strip` would take U+0085 too


def read_spiece(data, lowercase=True, keep_accents=False, replace_quotes=True):
    """Makes the tokenizer that a spiece.model describes; the switches are ALBERT's own, before it.

    Pieces that no text gives are left out of the matching: control and unused ones. Runs of unknown characters are one
    unknown piece, over blanks too, as SentencePiece has it.

    Args:
        data: bytes of the file.

    Raises:
        ValueError: it is no SentencePiece model, or not a unigram one.
    """
    try:
        model = _fields(data)
        pieces = [_fields(piece) for piece in model[1]]
        vocab = [(piece[1][0].decode("utf-8"), struct.unpack("<f", piece.get(2, [bytes(4)])[0])[0]) for piece in pieces]
        kinds = [piece.get(3, [NORMAL])[0] for piece in pieces]
        trainer, spec = (_fields(model.get(number, [b""])[0]) for number in (2, 3))
    except (KeyError, IndexError, UnicodeDecodeError, struct.error, TypeError):
        raise ValueError("spiece.model must be a SentencePiece model, got other bytes.") from None
    kind = trainer.get(3, [UNIGRAM])[0]
    if kind not in (UNIGRAM, WORD) or BYTE in kinds or UNKNOWN not in kinds:
        raise ValueError(f"spiece.model must be a unigram or word model without byte pieces, got one of type {kind}.")
    unknown = kinds.index(UNKNOWN)
    if kind == WORD:
        rows = {piece: row for row, (piece, _) in enumerate(vocab)}
        twin = tokenizers.Tokenizer(models.WordLevel(rows, unk_token=vocab[unknown][0]))
    else:
        twin = tokenizers.Tokenizer(models.Unigram(_scored(vocab, kinds), unk_id=unknown))
    steps = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')] if replace_quotes else []
    steps += [] if keep_accents else [normalizers.NFKD(), normalizers.StripAccents()]
    steps += [normalizers.Lowercase()] if lowercase else []
    steps += [normalizers.Precompiled(spec[2][0])] if spec.get(2, [b""])[0] else []
    if spec.get(4, [1])[0]:
        steps += [normalizers.Replace(tokenizers.Regex(pattern), text) for pattern, text in BLANKS]
    if steps:
        twin.normalizer = normalizers.Sequence(steps)
    prefix = "always" if spec.get(3, [1])[0] else "never"
    twin.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prefix, split=kind == WORD)
    twin.decoder = decoders.Metaspace(prepend_scheme=prefix)
    return twin


def _scored(vocab, kinds):
    """Pieces with the scores that SentencePiece gives them in its lattice: what users defined always wins."""
    normal = [score for (_, score), kind in zip(vocab, kinds, strict=True) if kind == NORMAL]
    lowest, highest = min(normal) - 1000, max(normal)
    scored = []
    for (piece, score), kind in zip(vocab, kinds, strict=True):
        if kind == USER_DEFINED:
            score = len(piece.encode("utf-8")) * highest - 0.1
        elif kind != NORMAL:
            score = lowest  # never on the best path
        scored.append((piece, score))
    return scored


def _fields(data):
    """Fields of a protocol buffer message: number -> values, integers or bytes."""
    fields, place = {}, 0
    while place < len(data):
        key, place = _integer(data, place)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, place = _integer(data, place)
        elif wire in (1, 2, 5):
            size, place = _integer(data, place) if wire == 2 else ({1: 8, 5: 4}[wire], place)
            value, place = data[place : place + size], place + size
        else:
            raise IndexError(wire)
        fields.setdefault(number, []).append(value)
    return fields


def _integer(data, place):
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
