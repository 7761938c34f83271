"""Tokenizers that tests share: each is laid out and traced once in a process. No test changes one."""

import functools

from keras_bert.tokenization import Tokenizer
from tests.conftest import shared_data
from tests.tokenization import small


def of_small(lowercase=True, strip_accents=None, tokenize_chinese_chars=True):
    """The small vocabulary."""
    return _of_small(lowercase, strip_accents, tokenize_chinese_chars)


@functools.cache
def published(name, lowercase=True):
    """A vocabulary of the shared data; without them the test is skipped."""
    return Tokenizer.from_vocab(shared_data(f"vocab/{name}/vocab.txt"), lowercase)


@functools.cache
def _of_small(*settings):
    return Tokenizer(small.VOCAB, *settings)
