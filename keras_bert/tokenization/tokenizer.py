"""`Tokenizer`: texts -> token ids by BERT's WordPiece, in Python, in TensorFlow graphs and as fixed-shape arrays."""

import functools

import keras
import numpy as np
import tensorflow as tf

from keras_bert.tokenization import strings, wordpiece
from keras_bert.tokenization.characters import MAX_LETTERS
from keras_bert.tokenization.decoding import join_tokens, tokens_of
from keras_bert.tokenization.encoding import checked_texts, encodings, pieces_of
from keras_bert.tokenization.folder import read_folder, write_folder
from keras_bert.tokenization.packing import features, parts_of, room
from keras_bert.tokenization.special import checked_special, special_tables
from keras_bert.tokenization.tensors import ARRAY_OPS, code_points_of
from keras_bert.tokenization.trie import vocabulary_tables
from keras_bert.tokenization.vocabulary import SPECIAL_TOKENS, ids_of, read_vocab, required_id, warn_of_long_tokens
from keras_bert.tokenization.windows import graph_windows, text_windows

SETTINGS = ("lowercase", "strip_accents", "tokenize_chinese_chars", "clean_text", "rules", "added_tokens")
as_written = tf.autograph.experimental.do_not_convert  # there is nothing to convert, which would take time


class Tokenizer:
    """BERT's WordPiece tokenizer by the rules of Hugging Face `tokenizers`, or of Google's original code.

    Args:
        vocab: tokens; a token's id is its place. Of equal tokens the last one counts.
        lowercase: lower-case every character.
        strip_accents: drop combining marks after canonical decomposition; None means as `lowercase`.
        tokenize_chinese_chars: make each CJK ideograph a word by itself.
        clean_text: drop control and other invisible characters.
        added_tokens: tokens of the vocabulary that count wherever a text has them, even in a word, before lower-casing.
        rules: "huggingface" or "google"; docs/tokenizer.md lists the differences.

    Raises:
        ValueError: the vocabulary is empty, or lacks [PAD], [UNK], [CLS] or [SEP]; the rules are unknown.
    """

    def __init__(
        self,
        vocab,
        lowercase=True,
        strip_accents=None,
        tokenize_chinese_chars=True,
        clean_text=True,
        rules="huggingface",
        added_tokens=(),
    ):
        if rules not in MAX_LETTERS:
            raise ValueError(f"`rules` must be one of {', '.join(MAX_LETTERS)}, got {rules!r}.")
        self.vocab = tuple(vocab)
        self.lowercase = bool(lowercase)
        self.strip_accents = None if strip_accents is None else bool(strip_accents)
        self.tokenize_chinese_chars = bool(tokenize_chinese_chars)
        self.clean_text = bool(clean_text)
        self.rules = rules
        self.vocab_size = len(self.vocab)
        self.token_ids = ids_of(self.vocab)  # token -> id; of equal tokens the last one counts
        self.special_tokens = tuple(token for token in SPECIAL_TOKENS if token in self.token_ids)
        self.special_ids = tuple(self.token_ids[token] for token in self.special_tokens)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id = self.special_ids[:4]
        self.caches = {}  # by the allowed special tokens: their tables, and the traced function
        self.added_tokens = checked_special(added_tokens, self.token_ids, "added_tokens")
        warn_of_long_tokens(self.vocab, MAX_LETTERS[rules], self.added_tokens)
        self._frame = self.cls_id, self.sep_id, self.pad_id

    @classmethod
    def from_vocab(cls, path, lowercase=True, **settings):
        """Reads vocab.txt; the settings are those of `Tokenizer`."""
        return cls(read_vocab(path), lowercase, **settings)

    @classmethod
    def from_folder(cls, folder):
        """Reads vocab.txt or tokenizer.json, with the settings of tokenizer_config.json or tokenizer.json."""
        return cls(**read_folder(folder))

    def save(self, folder):
        """Writes vocab.txt, tokenizer_config.json and tokenizer.json, which `transformers` opens with equal ids."""
        write_folder(self, folder)

    def get_config(self):
        """The arguments that make this tokenizer, as plain values."""
        return {"vocab": list(self.vocab)} | {name: getattr(self, name) for name in SETTINGS}

    @property
    def mask_id(self):
        """Id of [MASK]; a ValueError where the vocabulary has none."""
        return required_id("[MASK]", self.token_ids)

    # Python: lists of str or bytes

    def __call__(self, texts, pairs=None, max_length=512, allowed_special=(), truncation="longest_first"):
        """Makes model inputs of a batch.

        Args:
            texts, pairs: lists of str (or UTF-8 bytes) of one length; `pairs` may be None.
            max_length: most tokens of a row, special ones included; longer ones are cut.
            allowed_special: tokens that count as such when written in a text; by default none does.
            truncation: "longest_first" or "only_second".

        Returns:
            {"token_ids", "segment_ids", "padding_mask"}, NumPy int32 (B, T), T as long as the longest row.
        """
        room(max_length, pairs, truncation)  # refused before any work
        pieces = pieces_of(self, checked_texts(texts, pairs), allowed_special)
        packed = features(np, parts_of(np, pieces, pairs), max_length, truncation, *self._frame)
        return {name: array.astype("int32") for name, array in packed.items()}

    def encode(self, text, pair=None, allowed_special=()):
        """Tokenizes one text or pair, untruncated, to an `Encoding`."""
        return self.encode_batch([text], None if pair is None else [pair], allowed_special)[0]

    def encode_batch(self, texts, pairs=None, allowed_special=()):
        """Tokenizes many texts or pairs, untruncated, to a list of `Encoding`."""
        everything = checked_texts(texts, pairs)
        return encodings(self, everything, pieces_of(self, everything, allowed_special), pairs is not None)

    def windows(self, text, pair=None, max_length=512, stride=128, allowed_special=()):
        """Cuts a long text, or the second of a pair, into overlapping windows that together hold every token.

        Args:
            max_length: most tokens of a window, special ones included.
            stride: tokens that a window has in common with the one before.

        Returns:
            list of `Encoding`; offsets and word numbers are those of the whole text.
        """
        return text_windows(self.encode(text, pair, allowed_special), max_length, stride)

    def decode(self, ids, skip_special_tokens=True):
        """Text of token ids, without blanks between Chinese characters and before closing punctuation.

        Raises:
            ValueError: an id is outside the vocabulary.
        """
        skipped = {i for i in self.special_ids if i != self.unk_id} if skip_special_tokens else ()
        return join_tokens(tokens_of(ids, self.vocab, skipped))

    # TensorFlow: tensors of strings

    @as_written
    def strings_to_features(self, texts, pairs=None, max_length=512, allowed_special=(), truncation="longest_first"):
        """Makes model inputs of string tensors (B,), with core TensorFlow operations only.

        Arguments and result are those of calling the tokenizer, as tensors.
        """
        room(max_length, pairs, truncation)
        with tf.device("CPU:0"):
            pieces = self.graph_pieces(*code_points_of(texts, pairs), allowed_special)
            return features(ARRAY_OPS, parts_of(ARRAY_OPS, pieces, pairs), max_length, truncation, *self._frame)

    @as_written
    def strings_to_windows(self, texts, pairs=None, max_length=512, stride=128, allowed_special=(), max_first=None):
        """Makes model inputs of the windows of string tensors (B,), of their second texts where there are pairs.

        Args:
            max_first: most tokens of a first text, which is cut there; by default it has to fit.

        Returns:
            what `strings_to_features` gives, for W windows; "text_index" (W,) int32, the text of each; and (W, T):
            "offset_starts" and "offset_ends" in code points of the token's text, 0 at special tokens and padding;
            "word_ids", numbers of the words in the whole batch, there -1; "inside", 1 at tokens of the text that is
            cut; "own", 1 where such a token counts, which it does in one window, where it is not at an edge.
        """
        with tf.device("CPU:0"):
            code_points, row_splits = code_points_of(texts, pairs)
            pieces = self.graph_pieces(code_points, row_splits, allowed_special)
            return graph_windows(pieces, row_splits, pairs, max_length, stride, max_first, self._frame)

    @as_written
    def strings_to_ragged(self, texts, allowed_special=()):
        """Token ids of string tensors (B,) without [CLS] and [SEP]: int32 RaggedTensor (B, None)."""
        pieces = self.graph_pieces(*code_points_of(texts), allowed_special)
        return tf.RaggedTensor.from_row_splits(pieces.ids, tf.cast(pieces.row_splits, tf.int64), validate=False)

    # Arrays of fixed shapes: TFLite, ONNX, any backend

    @as_written
    def code_points_to_features(
        self, code_points, code_points_pair=None, length=128, allowed_special=(), truncation="longest_first"
    ):
        """Makes model inputs of Unicode code points, with keras.ops only; all that TFLite needs are its builtins.

        Args:
            code_points, code_points_pair: (B, C) int32, padded with 0.
            length: T, tokens of every row; longer ones are cut.

        Returns:
            {"token_ids", "segment_ids", "padding_mask"} (B, length) int32.
        """
        room(length, code_points_pair, truncation)
        points = [x for x in (code_points, code_points_pair) if x is not None]
        parts = wordpiece.parts_of(points, self._tables, self.unk_id, length, special_tables(self, allowed_special))
        return features(keras.ops, parts, length, truncation, *self._frame, width=length)

    # How it is done

    @functools.cached_property
    def _tables(self):
        return vocabulary_tables(self)

    def graph_pieces(self, code_points, row_splits, allowed_special=()):
        """The `strings.Pieces` of flat code points with a line end after each text."""
        allowed = special_tables(self, allowed_special)
        with tf.device("CPU:0"):  # small integer operations: a GPU would only wait for copies
            return strings.word_pieces(code_points, row_splits, self._tables, self.unk_id, allowed)

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "_tables"} | {"caches": {}}
