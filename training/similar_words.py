"""Uses TensorFlow. Makes the table of similar words that MacBERT's corruption takes them from."""

import numpy as np
import tensorflow as tf

from keras_bert.training.masking import maskable_table
from keras_bert.training.text_files import numbered_lines
from keras_bert.training.word_replacement import SimilarWords, word_hashes
from keras_bert.training.words import tokenize_words


def similar_words(source, tokenizer, words=None):
    """Makes a table of similar words.

    Similar words with another number of pieces, with a piece that is never drawn, or equal to the word, are left out:
    positions stay as they are.

    Args:
        source: a dict from words to lists of words; or a file with a word and its similar ones in each line, parted by
            tabs; or a function from a word to a list of words, with `words`.
        words: the words to ask the function for.

    Raises:
        ValueError: a line has no similar word, no similar word can be used, or the function came without `words`.
    """
    if callable(source):
        if words is None:
            raise ValueError("A function of similar words needs `words`, a list of the words to ask it for, got None.")
        source = {word: source(word) for word in words}
    elif not isinstance(source, dict):
        source = dict(_read_file(source))
    keys = list(source)
    ids, candidates = _pieces(keys, tokenizer), _pieces([word for key in keys for word in source[key]], tokenizer)
    maskable = maskable_table(tokenizer.vocab, tokenizer.special_ids)
    found, end = {}, 0  # words that are one for the tokenizer, such as those of another case, come together
    for key, word in zip(keys, ids, strict=True):
        start, end = end, end + len(source[key])
        usable = (other for other in candidates[start:end] if len(other) == len(word) != 0 and other != word)
        found.setdefault(word, {}).update(dict.fromkeys(other for other in usable if maskable[list(other)].all()))
    found = {word: list(others) for word, others in found.items() if others}
    if not found:
        raise ValueError(f"A word must have a similar one with equally many pieces, of {len(keys)} words none has.")
    hashes = _hashes_of(list(found))
    order = np.argsort(hashes)
    others = [list(found.values())[i] for i in order]
    flat = [other for some in others for other in some]
    return SimilarWords(
        hashes=hashes[order],
        starts=np.cumsum([0, *map(len, others)], dtype=np.int64),
        firsts=np.cumsum([0, *map(len, flat)], dtype=np.int64)[:-1],
        pieces=np.concatenate(flat).astype(np.int32),
    )


def _read_file(path):
    """Yields (word, list of similar ones) of each line."""
    for number, line in numbered_lines(path):
        word, *others = (part.strip() for part in line.split("\t"))
        if line.strip() and not (word and any(others)):
            raise ValueError(f"{path} must have a word, a tab and similar words in line {number}, got {line!r}.")
        if line.strip():
            yield word, [other for other in others if other]


def _pieces(words, tokenizer):
    """Token ids of each word, a tuple."""
    ids, lengths, _ = tokenize_words(words, tokenizer) if words else ([], [], [])
    return [tuple(part.tolist()) for part in np.split(np.asarray(ids), np.cumsum(lengths)[:-1])] if words else []


def _hashes_of(words):
    lengths = [len(word) for word in words]
    flat, word = np.concatenate(words), np.repeat(np.arange(len(words)), lengths)
    offset = np.arange(len(flat)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return word_hashes(tf.constant(flat, tf.int32), tf.constant(offset, tf.int32), word, len(words)).numpy()
