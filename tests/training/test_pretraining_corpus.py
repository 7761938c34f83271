import numpy as np
import pytest

import keras_bert
from keras_bert.training.preparing import prepare
from keras_bert.training.pretraining_corpus import read_pretraining_corpus
from keras_bert.training.pretraining_models import read_words
from tests.training.toy import numbered_documents, tokenizer_for

SIZES = (4, 3, 5, 2, 6, 4)


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A tokenizer, a text file and what `prepare` made of it."""
    folder = tmp_path_factory.mktemp("corpus")
    documents = numbered_documents(SIZES)
    text = folder / "text.txt"
    text.write_text("\n\n".join("\n".join(document) for document in documents), encoding="utf-8")
    tokenizer = tokenizer_for(documents)
    prepare([text], folder / "prepared", tokenizer)
    return tokenizer, str(text), str(folder / "prepared")


def documents_in(documents):
    """Each document's token ids, as a set of tuples."""
    borders = documents.sentence_starts[documents.document_starts]
    return {tuple(part.tolist()) for part in np.split(documents.token_ids, borders[1:-1])}


def test_texts_and_a_prepared_folder_are_divided_alike(sources):
    tokenizer, text, prepared = sources
    made = []

    def make(sentences):
        made.append(len(list(sentences)))
        return tokenizer

    found = [
        read_pretraining_corpus(text, make_tokenizer=make),
        read_pretraining_corpus(text, tokenizer=tokenizer),
        read_pretraining_corpus(prepared),
    ]
    for one in found:
        assert len(documents_in(one.train)) + len(documents_in(one.held)) == len(SIZES)
        assert not documents_in(one.train) & documents_in(one.held)
        assert len(one.held_names) == len(documents_in(one.held)) >= 2
    assert documents_in(found[0].train) == documents_in(found[1].train)
    assert made == [len(found[0].train.sentence_starts) - 1]  # no held-out word is in a new vocabulary
    assert found[2].tokenizer.vocab == tokenizer.vocab


@pytest.mark.parametrize("held", [1, 2])
def test_held_out_sources_leave_the_corpus_whole(sources, held):
    tokenizer, *files = sources
    found = read_pretraining_corpus(files[0], held_out=files[held - 1], tokenizer=tokenizer)
    assert documents_in(found.train) == documents_in(found.held)
    assert len(documents_in(found.train)) == len(found.held_names) == len(SIZES)


def test_errors(sources, tmp_path):
    tokenizer, text, prepared = sources
    other = keras_bert.Tokenizer([*tokenizer.vocab, "more"])
    for arguments in ({"source": prepared}, {"source": text, "held_out": prepared}):
        with pytest.raises(ValueError, match=r"prepared was prepared with another vocabulary than the model's\.$"):
            read_pretraining_corpus(tokenizer=other, **arguments)
    with pytest.raises(ValueError, match=r"^`segmenter` must not be set for a prepared corpus: its words are in it\.$"):
        read_pretraining_corpus(prepared, segmenter="spaces")
    (tmp_path / "words.txt").write_bytes("\ufeffone\r\n\r\n two \r\n".encode())
    assert read_words(tmp_path / "words.txt") == ["one", "two"]
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(ValueError, match=r"empty\.txt must hold a word a line, got none\.$"):
        read_words(tmp_path / "empty.txt")
