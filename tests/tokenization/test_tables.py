"""The frozen character tables, and the double array."""

import importlib.util
import time
import types
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from keras_bert.tokenization import characters, read_vocab, trie
from keras_bert.tokenization.matching import block_labels, longest_tokens
from tests.conftest import shared_data
from tests.tokenization import small

PACKAGE = Path(characters.__file__).parent
IN_NUMPY = types.SimpleNamespace(take=lambda x, places: x[places], where=np.where, pad=np.pad, unstack=np.unstack)


def build(vocab, lowercase=True):
    return trie.build_tables(vocab, *characters.characters(lowercase, lowercase, True))


def walk(tables, word, begins):
    """Id of the token that a word is, at a word's start or within one, or -1."""
    letters = [tables.entries[row_of(tables, letter)] >> trie.KIND_BITS for letter in word]
    letters[0] += tables.symbols * begins
    labels = block_labels(IN_NUMPY, np.array([*letters, trie.UNKNOWN]), tables)
    match = int(longest_tokens(IN_NUMPY, labels, np.zeros(1, int), tables)[0])
    return match >> trie.LENGTH_BITS if match & trie.LENGTH_MASK == len(word) else -1


def row_of(tables, letter):
    page, place = divmod(ord(letter), characters.PAGE)
    return tables.page[page] * characters.PAGE + place


@pytest.mark.slow
@pytest.mark.parametrize("rules", ["huggingface", "google"])
def test_tables_made_again_are_equal(rules):
    path = Path(__file__).parents[2] / "scripts" / "make_character_tables.py"
    spec = importlib.util.spec_from_file_location("make_character_tables", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    if rules == "google" and unicodedata.unidata_version != script.UNICODE:
        pytest.skip(f"needs Unicode {script.UNICODE}, this Python has {unicodedata.unidata_version}")
    with np.load(PACKAGE / f"characters_{rules}.npz") as file:
        made = getattr(script, f"make_{rules}_tables")()
        assert set(made) == set(file.files)
        for name, array in made.items():
            assert np.array_equal(array, file[name]), name


def test_tables_are_small_and_say_where_they_come_from():
    for rules in ("huggingface", "google"):
        assert (PACKAGE / f"characters_{rules}.npz").stat().st_size < 150_000  # measured: 104,442 and 107,189
    assert "Unicode 14.0.0" in characters.tables_source("google")
    assert "tokenizers 0.23.3" in characters.tables_source()
    assert "Unicode" in characters.tables_source()


def test_every_token_of_a_vocabulary_is_found_and_nothing_else():
    tables = build(small.VOCAB, lowercase=False)
    ids = {token: row for row, token in enumerate(small.VOCAB)}
    for token in small.WORDS:
        unreachable = token in ("中国", "``")  # isolated characters are words by themselves
        assert walk(tables, token, True) == (-1 if unreachable else ids[token]), token
        assert walk(tables, token, False) in (-1, ids.get(f"##{token}"))
    assert walk(tables, "wonde", True) == -1
    assert walk(tables, "wonderf", True) == -1


@pytest.mark.parametrize(
    ("name", "lowercase", "wide"),
    [
        ("bert-base-uncased", True, "pi−1"),
        ("bert-base-chinese", False, "ln～1"),
        pytest.param("bert-base-multilingual-cased", False, "ik행을", marks=pytest.mark.slow),
    ],
)
def test_published_vocabularies(name, lowercase, wide):
    vocab = read_vocab(shared_data(f"vocab/{name}/vocab.txt"))
    tables = build(vocab, lowercase)
    last = {token: row for row, token in enumerate(vocab)}
    words = [token for token in last if token.isascii() and token.isalpha() and (not lowercase or token.islower())]
    assert len(words) > 1000
    for token in words[::7]:
        assert walk(tables, token, True) == last[token]
        assert walk(tables, token, False) == last.get(f"##{token}", -1)
    for begins in (True, False):  # two blocks that no token has together: once a look-up behind the table's end
        assert walk(tables, wide, begins) == -1


@pytest.mark.slow  # seconds are for a machine that does nothing else
@pytest.mark.parametrize(("name", "seconds"), [("bert-base-uncased", 2), ("bert-base-multilingual-cased", 8)])
def test_published_vocabularies_are_laid_out_quickly(name, seconds):
    vocab = read_vocab(shared_data(f"vocab/{name}/vocab.txt"))
    build(small.VOCAB)  # reads the file
    start = time.process_time()
    build(vocab, name.endswith("uncased"))
    assert time.process_time() - start < seconds  # measured, on a busy machine: 0.5, 2.2


def test_the_smallest_vocabularies():
    for vocab in (small.SPECIAL, [*small.SPECIAL, "a"], [*small.SPECIAL, "##a"]):
        tables = build(vocab)
        assert walk(tables, "a", True) == (5 if "a" in vocab else -1)
        assert walk(tables, "a", False) == (5 if "##a" in vocab else -1)
