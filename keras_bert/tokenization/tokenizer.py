"""`Tokenizer`: texts -> token ids by BERT's WordPiece, in Python, in TensorFlow graphs and as fixed-shape arrays."""

import dataclasses
import functools
import itertools

import keras
import numpy as np
import tensorflow as tf

from keras_bert.tokenization import strings, wordpiece
from keras_bert.tokenization.characters import NUM_CODE_POINTS, REGULAR, characters
from keras_bert.tokenization.decoding import join_tokens
from keras_bert.tokenization.folder import read_folder, write_folder
from keras_bert.tokenization.packing import pack, packed_width, truncated
from keras_bert.tokenization.trie import build_tables
from keras_bert.tokenization.vocabulary import read_vocab

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclasses.dataclass(frozen=True)
class Encoding:
    """One text, or a pair, as tokens with [CLS] and [SEP].

    Attributes:
        ids, tokens: token ids and their strings.
        offsets: half-open places in Unicode code points of the text, (0, 0) for [CLS] and [SEP].
        word_ids: number of the word in its text, None for [CLS] and [SEP].
        segment_ids: 0 in the first text, 1 in the second.
    """

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    word_ids: list[int | None]
    segment_ids: list[int]


class Tokenizer:
    """BERT's WordPiece tokenizer by the rules of Hugging Face `tokenizers`.

    Args:
        vocab: tokens; a token's id is its place. Of equal tokens the last one counts.
        lowercase: lower-case every character.
        strip_accents: drop combining marks after canonical decomposition; None means as `lowercase`.
        tokenize_chinese_chars: make each CJK ideograph a word by itself.

    Raises:
        ValueError: the vocabulary is empty, or lacks [PAD], [UNK], [CLS] or [SEP].
    """

    def __init__(self, vocab, lowercase=True, strip_accents=None, tokenize_chinese_chars=True):
        self.vocab = tuple(vocab)
        self.lowercase = bool(lowercase)
        self.strip_accents = None if strip_accents is None else bool(strip_accents)
        self.tokenize_chinese_chars = bool(tokenize_chinese_chars)
        missing = [token for token in SPECIAL_TOKENS[:4] if token not in self.token_ids]
        if missing:
            raise ValueError(
                f"The vocabulary must hold [PAD], [UNK], [CLS] and [SEP], got {self.vocab_size} tokens "
                f"without {', '.join(missing)}."
            )
        self.pad_id, self.unk_id, self.cls_id, self.sep_id = (self.token_ids[token] for token in SPECIAL_TOKENS[:4])

    @classmethod
    def from_vocab(cls, path, lowercase=True, strip_accents=None, tokenize_chinese_chars=True):
        """Reads vocab.txt; the settings are those of `Tokenizer`."""
        return cls(read_vocab(path), lowercase, strip_accents, tokenize_chinese_chars)

    @classmethod
    def from_folder(cls, folder):
        """Reads vocab.txt or tokenizer.json, with the settings of tokenizer_config.json or tokenizer.json.

        Raises:
            ValueError: there is no vocabulary, or the files describe another kind of tokenizer.
        """
        return cls(**read_folder(folder))

    def save(self, folder):
        """Writes vocab.txt, tokenizer_config.json and tokenizer.json, which `transformers` opens with equal ids."""
        write_folder(self, folder)

    def get_config(self):
        """The arguments that make this tokenizer, as plain values."""
        return {
            "vocab": list(self.vocab),
            "lowercase": self.lowercase,
            "strip_accents": self.strip_accents,
            "tokenize_chinese_chars": self.tokenize_chinese_chars,
        }

    @property
    def vocab_size(self):
        """Number of rows of the vocabulary."""
        return len(self.vocab)

    @functools.cached_property
    def token_ids(self):
        """Id of every token, a dict; of equal tokens the last one counts."""
        return {token: row for row, token in enumerate(self.vocab)}

    @property
    def mask_id(self):
        """Id of [MASK].

        Raises:
            ValueError: the vocabulary has none.
        """
        if "[MASK]" not in self.token_ids:
            raise ValueError(f"The vocabulary must hold [MASK] for this, got {self.vocab_size} tokens without it.")
        return self.token_ids["[MASK]"]

    @property
    def special_tokens(self):
        """The special tokens that the vocabulary holds."""
        return tuple(token for token in SPECIAL_TOKENS if token in self.token_ids)

    @property
    def special_ids(self):
        """Their ids."""
        return tuple(self.token_ids[token] for token in self.special_tokens)

    # Python: lists of str or bytes

    def __call__(self, texts, pairs=None, max_length=512, allowed_special=()):
        """Makes model inputs of a batch.

        Args:
            texts, pairs: lists of str (or UTF-8 bytes) of one length; `pairs` may be None.
            max_length: most tokens of a row, special ones included; longer ones are cut, longest-first.
            allowed_special: tokens that count as such when written in a text; by default none does.

        Returns:
            {"token_ids", "segment_ids", "padding_mask"}, NumPy int32 (B, T), T as long as the longest row.
        """
        budget = _budget(max_length, pairs)
        pieces = self._pieces(_checked_texts(texts, pairs), allowed_special)
        features = self._packed(np, pieces, pairs is not None, budget)
        return {name: array.astype("int32") for name, array in features.items()}

    def encode(self, text, pair=None, allowed_special=()):
        """Tokenizes one text or pair, untruncated, to an `Encoding`."""
        return self.encode_batch([text], None if pair is None else [pair], allowed_special)[0]

    def encode_batch(self, texts, pairs=None, allowed_special=()):
        """Tokenizes many texts or pairs, untruncated, to a list of `Encoding`."""
        rows = self._encoded(_checked_texts(texts, pairs), allowed_special)
        if pairs is None:
            return [self._framed(row) for row in rows]
        return [self._framed(*both) for both in zip(rows[: len(texts)], rows[len(texts) :], strict=True)]

    def decode(self, ids, skip_special_tokens=True):
        """Text of token ids, without blanks between Chinese characters and before closing punctuation.

        Raises:
            ValueError: an id is outside the vocabulary.
        """
        ids = [int(i) for i in ids]
        outside = [i for i in ids if not 0 <= i < self.vocab_size]
        if outside:
            raise ValueError(f"`ids` must be at least 0 and below {self.vocab_size}, got {outside[0]}.")
        skipped = {i for i in self.special_ids if i != self.unk_id} if skip_special_tokens else ()
        return join_tokens(self.vocab[i] for i in ids if i not in skipped)

    # TensorFlow: tensors of strings

    def strings_to_features(self, texts, pairs=None, max_length=512, allowed_special=()):
        """Makes model inputs of string tensors (B,), with core TensorFlow operations only.

        Arguments and result are those of calling the tokenizer, as tensors.
        """
        budget = _budget(max_length, pairs)
        with tf.device("CPU:0"):
            if pairs is not None:
                sizes = "`texts` and `pairs` must have equal lengths."
                tf.debugging.assert_equal(tf.size(texts), tf.size(pairs), message=sizes)
                texts = tf.concat([texts, pairs], 0)
            pieces = self._graph_pieces(*strings.code_points_of(texts), allowed_special)
            return self._packed(strings.ARRAY_OPS, pieces, pairs is not None, budget)

    def strings_to_ragged(self, texts, allowed_special=()):
        """Token ids of string tensors (B,) without [CLS] and [SEP]: int32 RaggedTensor (B, None)."""
        pieces = self._graph_pieces(*strings.code_points_of(texts), allowed_special)
        return tf.RaggedTensor.from_row_splits(pieces.ids, tf.cast(pieces.row_splits, tf.int64), validate=False)

    # Arrays of fixed shapes: TFLite, ONNX, any backend

    def code_points_to_features(self, code_points, code_points_pair=None, length=128, allowed_special=()):
        """Makes model inputs of Unicode code points, with keras.ops only; all that TFLite needs are its builtins.

        Args:
            code_points, code_points_pair: (B, C) int32, padded with 0.
            length: T, tokens of every row; longer ones are cut, longest-first.

        Returns:
            {"token_ids", "segment_ids", "padding_mask"} (B, length) int32.
        """
        budget = _budget(length, code_points_pair)
        allowed = self._special_tables(allowed_special)
        found = [
            wordpiece.word_pieces(points, self._tables, self.unk_id, length, allowed)
            for points in (code_points, code_points_pair)
            if points is not None
        ]
        (ids, counts), (pair_ids, pair_counts) = (*found, (None, None))[:2]
        counts, pair_counts = truncated(keras.ops, counts, pair_counts, budget)
        starts = keras.ops.arange(keras.ops.shape(code_points)[0]) * length
        second = None if code_points_pair is None else (pair_ids, starts, pair_counts)
        return pack(keras.ops, (ids, starts, counts), second, length, self.cls_id, self.sep_id, self.pad_id)

    # How it is done

    @functools.cached_property
    def _tables(self):
        strip_accents = self.lowercase if self.strip_accents is None else self.strip_accents
        return build_tables(self.vocab, *characters(self.lowercase, strip_accents, self.tokenize_chinese_chars))

    @functools.cached_property
    def _caches(self):
        return {}  # by the tuple of allowed special tokens: their tables, and the traced function

    def _special_tables(self, allowed_special):
        """Tables of special tokens in raw text, where each code point stands for itself."""
        allowed = self._checked_special(allowed_special)
        if not allowed:
            return None
        key = ("tables", allowed)
        if key not in self._caches:
            becomes = np.zeros((NUM_CODE_POINTS, 3), "int32")
            becomes[:, 0] = np.arange(NUM_CODE_POINTS)
            kinds, ranks = np.full(NUM_CODE_POINTS, REGULAR, "uint8"), np.zeros(NUM_CODE_POINTS, "uint8")
            tables = build_tables(allowed, becomes, kinds, ranks)
            ids = np.array([self.token_ids[token] for token in allowed] + [-1], "int32")
            tables.trie[:, 2] = ids[tables.trie[:, 2]]
            self._caches[key] = tables
        return self._caches[key]

    def _checked_special(self, allowed_special):
        if isinstance(allowed_special, str):
            raise ValueError(f"`allowed_special` must be a collection of tokens, got the string {allowed_special!r}.")
        allowed = tuple(sorted(set(allowed_special)))
        for token in allowed:
            if token not in self.token_ids:
                raise ValueError(f"`allowed_special` must hold tokens of the vocabulary, got {token!r}.")
            if not token.strip() or "\n" in token or token.startswith("##"):
                raise ValueError(f"`allowed_special` must hold words, got {token!r}.")
        return allowed

    def _graph_pieces(self, code_points, row_splits, allowed_special):
        allowed = self._special_tables(allowed_special)
        with tf.device("CPU:0"):  # small integer operations: a GPU would only wait for copies
            return strings.word_pieces(code_points, row_splits, self._tables, self.unk_id, allowed)

    def _pieces(self, texts, allowed_special):
        """Pieces of a list of texts as NumPy arrays, by a function that is traced once."""
        key = ("function", self._checked_special(allowed_special))
        if key not in self._caches:
            flat = tf.TensorSpec([None], tf.int32)
            self._caches[key] = tf.function(
                lambda code_points, splits: self._graph_pieces(code_points, splits, key[1]),
                [flat, flat],
                autograph=False,
            )
        pieces = self._caches[key](*_flat_code_points(texts))
        return strings.Pieces(*(tensor.numpy() for tensor in pieces))

    def _packed(self, ops, pieces, paired, budget):
        """Truncates and packs `Pieces`, the second texts after the first; `ops` is NumPy or strings.ARRAY_OPS."""
        starts, lengths, seconds = pieces.row_splits[:-1], pieces.row_splits[1:] - pieces.row_splits[:-1], (None, None)
        if paired:
            starts, seconds = ops.split(starts, 2)[0], (ops.split(starts, 2)[1], ops.split(lengths, 2)[1])
            lengths = ops.split(lengths, 2)[0]
        lengths, pair_lengths = truncated(ops, lengths, seconds[1], budget)
        width = ops.max(ops.pad(packed_width(lengths, pair_lengths), [[0, 1]]))
        ids = ops.pad(pieces.ids, [[0, 1]])
        second = (ids, seconds[0], pair_lengths) if paired else None
        return pack(ops, (ids, starts, lengths), second, width, self.cls_id, self.sep_id, self.pad_id)

    def _encoded(self, texts, allowed_special):
        """Per text: lists of ids, offsets and word numbers."""
        pieces = self._pieces(texts, allowed_special)
        splits = pieces.row_splits.tolist()
        text_starts = np.cumsum([0] + [len(text) + 1 for text in _decoded(texts)])
        rows = []
        for row, (start, end) in enumerate(itertools.pairwise(splits)):
            starts, ends = (x[start:end] - text_starts[row] for x in (pieces.starts, pieces.ends))
            words = pieces.words[start:end]
            offsets = list(zip(starts.tolist(), ends.tolist(), strict=True))
            rows.append((pieces.ids[start:end].tolist(), offsets, (words - words[:1]).tolist()))
        return rows

    def _framed(self, first, second=None):
        """Puts [CLS] and [SEP] round one or two texts."""
        ids, offsets, words = [self.cls_id], [(0, 0)], [None]
        segment_ids = [0]
        for segment, part in enumerate((first, second)):
            if part is not None:
                ids += [*part[0], self.sep_id]
                offsets += [*part[1], (0, 0)]
                words += [*part[2], None]
                segment_ids += [segment] * (len(part[0]) + 1)
        return Encoding(ids, [self.vocab[i] for i in ids], offsets, words, segment_ids)

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in ("_tables", "_caches")}


def _budget(max_length, pairs):
    special = 2 if pairs is None else 3
    if max_length < special:
        raise ValueError(f"`max_length` must be at least {special}, for [CLS] and [SEP], got {max_length}.")
    return max_length - special


def _checked_texts(texts, pairs):
    """All texts in one list, the second ones of pairs after the first ones."""
    for name, values in (("texts", texts), ("pairs", pairs)):
        if isinstance(values, (str, bytes)):
            raise ValueError(f"`{name}` must be a list of strings, got one string.")
        for value in () if values is None else values:
            if not isinstance(value, (str, bytes)):
                raise ValueError(f"`{name}` must hold strings, got {type(value).__name__}.")
    if pairs is None:
        return list(texts)
    if len(texts) != len(pairs):
        raise ValueError(f"`texts` and `pairs` must have equal lengths, got {len(texts)} and {len(pairs)}.")
    return [*texts, *pairs]


def _decoded(texts):
    return [text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in texts]


def _flat_code_points(texts):
    """Code points of all texts, a line end after each: int32 (N,) and row_splits (B + 1,)."""
    texts = _decoded(texts)
    joined = "".join(f"{text}\n" for text in texts).encode("utf-32-le", "surrogatepass")
    splits = np.cumsum([0] + [len(text) + 1 for text in texts], dtype="int32")
    return np.frombuffer(joined, "int32"), splits
