"""A tokenizer with `tensorflow_text`'s kernel for plain texts, in TensorFlow's tf.data: equal ids, much faster.

Of printable ASCII, of some punctuation and of common ideographs, cleaning, lower-casing and splitting are the same in
both libraries, and each character stands for itself: what is left is the longest match in the same tokens. Texts of
these characters go to the kernel, all others to ours. The operations are not TensorFlow's own: nothing exported holds
them, and nothing but a call of `with_tensorflow_text` brings them in.
"""

import re
import typing

import numpy as np
import tensorflow as tf

from keras_bert.tokenization.characters import MAX_LETTERS
from keras_bert.tokenization.packing import features, parts_of, room
from keras_bert.tokenization.tensors import ARRAY_OPS, Pieces, where
from keras_bert.tokenization.tokenizer import Tokenizer, as_written

BLANKS, LETTERS = r"\t\n\r ", "0-9A-Za-z"
PUNCTUATION = "!-/:-@\\[-`{-~–—‘’“”、。〈-】"  # words by themselves, which neither library changes
WIDE = "…！-＃％-＊，-／：；？＠"  # with lower-casing the kernel's normalizer decomposes these, and BERT's does not
IDEOGRAPHS = "一-龥"  # the block as Unicode 1.1 had it


class InTensorFlowText(typing.NamedTuple):
    """Functions of string tensors (B,), for `Dataset.map`.

    Attributes:
        strings_to_features: (texts, pairs=None, max_length=512, truncation="longest_first") -> what
            `Tokenizer.strings_to_features` gives.
        strings_to_ragged: texts -> what `Tokenizer.strings_to_ragged` gives.
    """

    strings_to_features: typing.Callable
    strings_to_ragged: typing.Callable


def with_tensorflow_text(tokenizer):
    """Gives the functions of a tokenizer that use `tensorflow_text` where a text is plain, with equal ids.

    For input pipelines: a SavedModel that they are traced into does not load without `tensorflow_text`.

    Args:
        tokenizer: a `Tokenizer` without added tokens.

    Returns:
        an `InTensorFlowText`.

    Raises:
        ImportError: `tensorflow_text` is not installed.
        ValueError: the tokenizer is of another kind, or has added tokens.
    """
    if not isinstance(tokenizer, Tokenizer):
        raise ValueError(f"`tokenizer` must be a WordPiece `Tokenizer`, got a {type(tokenizer).__name__}.")
    if tokenizer.added_tokens:
        raise ValueError(
            f"`tokenizer` must have no added tokens, got {', '.join(tokenizer.added_tokens)}: the kernel of "
            "`tensorflow_text` does not know them. Use `tokenizer.strings_to_features`."
        )
    isolated = PUNCTUATION + WIDE * (not tokenizer.lowercase) + IDEOGRAPHS * tokenizer.tokenize_chinese_chars
    kernel = _kernel(tokenizer, isolated)

    def pieces(texts):
        plain = tf.strings.regex_full_match(texts, f"[{BLANKS}{LETTERS}{isolated}]*")
        return _pieces(tokenizer, kernel, plain, texts)

    @as_written
    def strings_to_features(texts, pairs=None, max_length=512, truncation="longest_first"):
        room(max_length, pairs, truncation)
        with tf.device("CPU:0"):
            found = pieces(texts if pairs is None else tf.concat([texts, pairs], 0))
            parts = parts_of(ARRAY_OPS, found, pairs)
            return features(
                ARRAY_OPS, parts, max_length, truncation, tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id
            )

    @as_written
    def strings_to_ragged(texts):
        with tf.device("CPU:0"):
            found = pieces(texts)
        return tf.RaggedTensor.from_row_splits(found.ids, tf.cast(found.row_splits, tf.int64), validate=False)

    return InTensorFlowText(strings_to_features, strings_to_ragged)


def _kernel(tokenizer, isolated):
    """Builds a function from plain strings (B,) to a RaggedTensor of our ids.

    The kernel gets only what a plain text can give, each token once, so that its builder has nothing to refuse: words
    and continuations of letters, and single isolated characters.
    """
    try:
        import tensorflow_text
    except ImportError:
        raise ImportError('tensorflow_text is missing: pip install "keras3-bert[text]".') from None
    token = re.compile(f"(##)?[{LETTERS}]{{1,{MAX_LETTERS[tokenizer.rules]}}}|[{isolated}]")
    found = [text for text in tokenizer.token_ids if token.fullmatch(text)]
    ids = np.array([tokenizer.unk_id, tokenizer.unk_id, *(tokenizer.token_ids[text] for text in found)], "int32")
    kernel = tensorflow_text.FastBertTokenizer(
        ["[UNK]", "é", *found],  # the second, which no plain text can give, because a builder without words stops
        max_bytes_per_word=MAX_LETTERS[tokenizer.rules],  # words of more than one character are ASCII
        token_out_type=tf.int32,
        lower_case_nfd_strip_accents=tokenizer.lowercase,
    )

    def tokenize(texts):
        found = kernel.tokenize(texts)
        return found.with_flat_values(tf.gather(ids, found.flat_values))

    return tokenize


def _pieces(tokenizer, kernel, plain, texts):
    """`Pieces` without places, of texts (B,) of which those with `plain` (B,) go to the kernel."""
    rows, others = where(plain), where(~plain)
    by_kernel = kernel(tf.gather(texts, rows))
    ours = tokenizer.strings_to_ragged(tf.gather(texts, others))
    order = tf.math.invert_permutation(tf.concat([rows, others], 0))
    found = tf.gather(tf.concat([by_kernel, ours], 0), order)
    return Pieces(found.flat_values, tf.cast(found.row_splits, tf.int32), None, None, None)
