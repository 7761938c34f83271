"""The `google` rules against a plain loop: every code point, final sigmas, random strings; kept by every file."""

import random
import unicodedata

import numpy as np
import pytest

from keras_bert.tokenization import Tokenizer
from keras_bert.tokenization.characters import tables_source
from tests.conftest import shared_data
from tests.tokenization import google_rules, small

VOCABULARIES = {
    "bert-base-uncased": True,
    "bert-base-cased": False,
    "bert-base-chinese": False,
    "bert-base-multilingual-cased": False,
}
SIGMAS = [*"ΣΣΣσΑαa.':-·\u0301\u00ad 中1", "\u02b0", "\ue000", "\x07"]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer([*small.VOCAB, "α", "##α", "##\ue000", "\ue000", "##'"], rules="google")


@pytest.fixture
def _same_unicode():
    if unicodedata.unidata_version not in tables_source("google"):
        pytest.skip(f"needs {tables_source('google')}, this Python has {unicodedata.unidata_version}")


def check(tokenizer, texts):
    wrong = [
        (ascii(text), encoding.tokens[1:-1])
        for text, encoding in zip(texts, tokenizer.encode_batch(texts), strict=True)
        if encoding.tokens[1:-1] != google_rules.tokenize(text, tokenizer.token_ids, tokenizer.lowercase)
    ]
    assert wrong == []


def spaced(form, code_points):
    return [" ".join(form.format(chr(c)) for c in chunk) for chunk in np.array_split(code_points, 1000)]


@pytest.mark.usefixtures("_same_unicode")
@pytest.mark.parametrize("form", ["a{}a", "{}a"])
def test_code_points_of_all_kinds(form):
    tokenizer = Tokenizer.from_vocab(shared_data("vocab/bert-base-uncased/vocab.txt"), rules="google")
    rng = np.random.default_rng(3)
    check(tokenizer, spaced(form, [*range(1, 0x3400), *rng.choice(np.arange(0xE000, 0x110000), 10_000)]))


@pytest.mark.slow
@pytest.mark.usefixtures("_same_unicode")
@pytest.mark.parametrize("name", VOCABULARIES)
def test_every_code_point(name):
    path = shared_data(f"vocab/{name}/vocab.txt")
    tokenizer = Tokenizer.from_vocab(path, VOCABULARIES[name], rules="google")
    code_points = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
    for form in ("a{}a", "{}", "{}a", "a {}"):
        check(tokenizer, spaced(form, code_points))


def test_final_sigmas_and_what_google_keeps(tokenizer):
    rng = random.Random(4)
    texts = ["".join(rng.choices(SIGMAS, k=rng.randint(1, 9))) for _ in range(3000)]
    check(tokenizer, texts)
    assert tokenizer.encode("ΑΣ ΣΑ Σ").tokens[1:-1] == ["α", "##ς", "σ", "##α", "σ"]
    assert tokenizer.encode("a" * 150).tokens[1:-1] == ["a"] + ["##a"] * 149
    assert tokenizer.encode("a" * 201).tokens[1:-1] == ["[UNK]"]
    assert tokenizer.encode("the \U000fe4fa the").tokens[1:-1] == ["the", "[UNK]", "the"]
    assert tokenizer.encode("ΑΣ[MASK]α", allowed_special=["[MASK]"]).tokens[1:-1] == ["α", "##ς", "[MASK]", "α"]


def test_hard_strings(tokenizer):
    check(tokenizer, small.hard_strings(2000, seed=11))


def test_arrays_of_fixed_shape_agree(tokenizer):
    rng = random.Random(5)
    texts = ["".join(rng.choices(SIGMAS, k=rng.randint(1, 9))) for _ in range(300)] + ["a" * 200, "a" * 201]
    points = np.zeros((len(texts), 201), "int32")
    for row, text in zip(points, texts, strict=True):
        row[: len(text)] = [ord(char) for char in text]
    want = tokenizer(texts)["token_ids"]
    got = np.asarray(tokenizer.code_points_to_features(points, None, 210)["token_ids"])
    assert np.array_equal(got[:, : want.shape[1]], want)


@pytest.mark.parametrize("without", ["vocab.txt", "tokenizer.json"])
def test_rules_are_kept(tokenizer, tmp_path, without):
    assert Tokenizer(**tokenizer.get_config()).rules == "google"
    tokenizer.save(tmp_path)
    (tmp_path / without).unlink()
    loaded = Tokenizer.from_folder(tmp_path)
    assert loaded.rules == "google"
    assert loaded.vocab_size == tokenizer.vocab_size
    assert loaded.encode("ΑΣ").ids == tokenizer.encode("ΑΣ").ids


def test_unknown_rules_are_named():
    with pytest.raises(ValueError, match="`rules` must be one of huggingface, google, got 'bert'"):
        Tokenizer(small.VOCAB, rules="bert")
