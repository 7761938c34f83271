"""Text to pretrain on, tokenized: documents to learn from, and documents that are held out."""

import dataclasses
from pathlib import Path

import numpy as np

from keras_bert.tokenization.tokenizer import Tokenizer
from keras_bert.training import corpus
from keras_bert.training.pairs import TokenizedDocuments, tokenize_documents
from keras_bert.training.shards import read_shards, select_documents
from keras_bert.training.words import find_segmenter

PYTHON_DOCS = "python-docs"


@dataclasses.dataclass(frozen=True)
class PretrainingCorpus:
    """Both parts of a corpus, and the names of the documents in the second one."""

    tokenizer: Tokenizer
    train: TokenizedDocuments
    held: TokenizedDocuments
    held_names: list[str]


def read_pretraining_corpus(source, held_out="", tokenizer=None, segmenter=None, make_tokenizer=None):
    """Reads a corpus.

    Args:
        source: "python-docs", the documentation inside Python; text files, one path or a tuple of them; or a folder
            that `prepare` wrote, which brings its tokenizer and its words.
        held_out: such a source that is evaluated on; "" holds out about a tenth of `source`, by whole documents.
        tokenizer: that of the model, which a prepared folder must have too; None for a new one.
        segmenter: that of `find_segmenter`, for texts.
        make_tokenizer: from an iterable of sentences to a new tokenizer, for texts without one.

    Raises:
        ValueError: there are too few documents, the vocabularies differ, or a prepared folder comes with a segmenter.
    """
    if _is_prepared(source):
        own = Tokenizer.from_folder(source)
        _check_vocabulary(source, own, tokenizer)
        tokenizer, parts = tokenizer or own, _read_prepared(source, segmenter, not held_out)
    else:
        documents = _read_texts(source)
        parts = corpus.hold_out(documents) if not held_out else (documents, {})
        if tokenizer is None:
            tokenizer = make_tokenizer(sentence for document in parts[0].values() for sentence in document)
        parts = tuple(_tokenized(part, tokenizer, segmenter) for part in parts)
    (train, _), (held, names) = parts
    if held_out:
        if _is_prepared(held_out):
            _check_vocabulary(held_out, Tokenizer.from_folder(held_out), tokenizer)
            held, names = _read_prepared(held_out, None, False)[0]
        else:
            held, names = _tokenized(_read_texts(held_out), tokenizer, None if _is_prepared(source) else segmenter)
    return PretrainingCorpus(tokenizer, train, held, names)


def _is_prepared(source):
    return isinstance(source, str) and Path(source).is_dir()


def _check_vocabulary(folder, own, tokenizer):
    if tokenizer is not None and own.vocab != tokenizer.vocab:
        raise ValueError(f"{folder} was prepared with another vocabulary than the model's.")


def _read_texts(source):
    """A dict from names of documents to their sentences."""
    if source == PYTHON_DOCS:
        return corpus.python_docs()
    return corpus.read_documents([source] if isinstance(source, str) else source)


def _tokenized(documents, tokenizer, segmenter):
    return tokenize_documents(list(documents.values()), tokenizer, find_segmenter(segmenter)), list(documents)


def _read_prepared(folder, segmenter, hold_out):
    """Pairs of documents and their names: those to train on and those held out, or all and none."""
    if segmenter is not None:
        raise ValueError("`segmenter` must not be set for a prepared corpus: its words are in it.")
    documents, names = read_shards(folder)
    if not hold_out:
        return (documents, names), (None, [])
    sizes = np.diff(documents.document_starts)
    parts = corpus.hold_out({name: range(size) for name, size in zip(names, sizes, strict=True)})
    numbers = {name: number for number, name in enumerate(names)}
    return tuple((select_documents(documents, [numbers[name] for name in part]), list(part)) for part in parts)
