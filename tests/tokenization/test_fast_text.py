"""`with_tensorflow_text` gives the tokenizer's own ids; where the package is missing, it says what to install.

What needs the package runs with KERAS_BERT_TENSORFLOW_TEXT=allowed, where it is installed: `make test-all` does that.
"""

import importlib.util
import itertools
import json
import random
import warnings

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.tokenization import Tokenizer, fast_text, with_tensorflow_text
from tests.conftest import shared_data
from tests.tokenization import made, small

RULES = ("huggingface", "google")
ASCII = "".join(map(chr, (9, 10, 13, *range(32, 127))))
SAMPLES = (ASCII, "aA.#b ", "abAB19 .[]#-", "unaffablef#' ", ASCII + "中国，。…！’–é\u0301\x00\x7f\u00a0Σ")


@pytest.fixture(scope="module")
def package():
    return pytest.importorskip("tensorflow_text", reason="needs tensorflow_text (the extra text), which is not allowed")


@pytest.mark.skipif(importlib.util.find_spec("tensorflow_text") is not None, reason="tensorflow_text is allowed here")
def test_a_missing_package_is_named():
    with pytest.raises(ImportError, match=r'^tensorflow_text is missing: pip install "keras3-bert\[text\]"\.$'):
        with_tensorflow_text(Tokenizer(small.VOCAB))


def test_what_the_kernel_does_not_know_is_refused():
    with pytest.raises(ValueError, match=r"must have no added tokens, got \[unused1\]: the kernel"):
        with_tensorflow_text(Tokenizer(small.VOCAB, added_tokens=("[unused1]",)))
    with pytest.raises(ValueError, match="must be a WordPiece `Tokenizer`, got a list"):
        with_tensorflow_text(small.VOCAB)


def check(tokenizer, texts):
    want = tokenizer.strings_to_ragged(tf.constant(texts))
    got = with_tensorflow_text(tokenizer).strings_to_ragged(tf.constant(texts))
    assert (got.dtype, got.row_splits.dtype) == (want.dtype, want.row_splits.dtype)
    different = [text for text, a, b in zip(texts, got.to_list(), want.to_list(), strict=True) if a != b]
    assert different == []


def strings(alphabet, count, longest, rng):
    return ["".join(rng.choices(alphabet, k=rng.randint(0, longest))) for _ in range(count)]


def tokenizers(vocab, rules=RULES):
    """Under all settings that matter to a character."""
    for lowercase, chinese, clean, rule in itertools.product((True, False), (True, False), (True, False), rules):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "A token must have at most")
            yield Tokenizer(vocab, lowercase, None, chinese, clean, rule)


def plain_characters():
    """All that a pattern for the kernel matches, under any setting."""
    classes = fast_text.BLANKS + fast_text.LETTERS + fast_text.PUNCTUATION + fast_text.WIDE + fast_text.IDEOGRAPHS
    everything = [chr(c) for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
    plain = tf.strings.regex_full_match(everything, f"[{classes}]").numpy()
    return list(itertools.compress(everything, plain))


def test_every_plain_character(package):
    plain = plain_characters()
    assert set(ASCII) < set(plain)
    assert len(plain) > 20_000
    texts = [f"{before}{char}{after}" for char in plain for before, after in (("a", "a"), ("", ""), (" ", "B"))]
    vocab = [*small.SPECIAL, "a", "##a", "b", "B", "##b", "##B", *plain[::2], *(f"##{char}" for char in plain[::3])]
    for tokenizer in tokenizers(vocab):
        check(tokenizer, texts)


@pytest.mark.parametrize("seed", range(12))
def test_random_vocabularies(package, seed):
    rng = random.Random(seed)
    letters = rng.choice(SAMPLES)
    words = [word for word in strings(letters, 150, rng.choice((2, 4, 9)), rng) if "\n" not in word]
    vocab = [*small.SPECIAL, *words, *(f"##{word}" for word in words[::2]), "", "##", "###", "[UNK]", *words[::5]]
    rng.shuffle(vocab)
    for tokenizer in tokenizers(vocab, rules=(RULES[seed % 2],)):
        check(tokenizer, strings(letters, 300, 30, rng) + strings(ASCII, 100, 30, rng) + words + small.hard_strings(50))


def test_a_vocabulary_without_words(package):
    for tokenizer in tokenizers(small.SPECIAL):
        check(tokenizer, ["", " ", "a", "[UNK] [CLS]", "the 中 é"])


@pytest.mark.parametrize("rules", RULES)
def test_long_words_and_tokens(package, rules):
    words = ["a" * length for length in (1, 99, 100, 101, 199, 200, 201, 300)]
    vocab = [*small.SPECIAL, "a", "##a", "##aaaaaaa", *words, *(f"##{word}" for word in words), "中"]
    texts = [f"{a}{between}{b}" for a in words for b in words for between in ("", " ", "中", "–", ".")]
    for tokenizer in tokenizers(vocab, (rules,)):
        check(tokenizer, texts)


@pytest.mark.parametrize("alphabet", [*SAMPLES, small.VOCAB])
def test_random_strings(package, alphabet):
    for tokenizer in tokenizers(small.VOCAB):
        check(tokenizer, strings(alphabet, 2_000, 40, random.Random(3)))


def test_features_in_tf_data(package):
    tokenizer = made.of_small()
    functions = with_tensorflow_text(tokenizer)
    texts = small.hard_strings(200) + strings(ASCII, 100, 30, random.Random(1))
    texts = [b"\xff\xfe", b"", *(text.encode() for text in texts)]
    dataset = tf.data.Dataset.from_tensor_slices((texts, texts[::-1])).batch(64)
    for length, truncation in ((512, "longest_first"), (12, "longest_first"), (12, "only_second")):
        for pairs in (False, True):
            both = dataset.map(
                lambda a, b, pairs=pairs, length=length, truncation=truncation: [
                    made.strings_to_features(a, b if pairs else None, length, truncation=truncation)
                    for made in (functions, tokenizer)
                ],
                num_parallel_calls=2,
            )
            for got, want in both:
                assert got.keys() == want.keys()
                for name in want:
                    assert got[name].dtype == want[name].dtype
                    np.testing.assert_array_equal(got[name], want[name], name)


def test_batches_without_texts_or_of_one_kind(package):
    tokenizer = made.of_small()
    functions = with_tensorflow_text(tokenizer)
    assert functions.strings_to_ragged(tf.zeros([0], tf.string)).to_list() == []
    assert functions.strings_to_features(tf.zeros([0], tf.string))["token_ids"].shape == (0, 2)
    for texts in (["the un"], ["é"], ["", ""], ["é", "the", "ß", "un"]):
        check(tokenizer, texts)
    with pytest.raises(ValueError, match="`max_length` must be at least 2"):
        functions.strings_to_features(tf.constant(["a"]), None, 1)


@pytest.mark.parametrize(
    ("name", "lowercase"), [("bert-base-uncased", True), ("bert-base-cased", False), ("bert-base-chinese", False)]
)
def test_texts_of_the_shared_data(package, name, lowercase):
    path = shared_data("vocab") / name / "vocab.txt"
    if not path.exists():
        pytest.skip(f"needs the vocabulary {name}")
    tokenizer = Tokenizer.from_vocab(path, lowercase)
    with (shared_data("tokenizer_vectors") / "bert-base-uncased.jsonl").open(encoding="utf-8") as file:
        hard = [json.loads(line)["text"] for line in file]
    for language in ("en", "zh"):
        file = sorted(shared_data(f"pretrain_{language}").glob("*.txt"))[0]
        lines = file.read_text(encoding="utf-8").split("\n")
        check(tokenizer, lines[:10_000] + hard)
