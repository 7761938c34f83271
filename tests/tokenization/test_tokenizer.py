"""The tokenizer in Python: the oracle, the worked examples, settings, special tokens, bad input."""

import copy
import itertools
import pickle
import random

import numpy as np
import pytest

from keras_bert.tokenization import Tokenizer
from tests.conftest import shared_data
from tests.tokenization import made, small

LONG = "x" * 256
SETTINGS = [
    settings if settings in small.SETTINGS else pytest.param(*settings, marks=pytest.mark.slow)
    for settings in itertools.product([True, False], [None, True, False], [True, False])
]


@pytest.fixture(scope="module")
def tokenizer():
    return made.of_small()


def tokens(tokenizer, text, **options):
    return tokenizer.encode(text, **options).tokens[1:-1]


@pytest.mark.parametrize(("lowercase", "strip_accents", "chinese"), SETTINGS)
def test_agrees_with_a_plain_loop(lowercase, strip_accents, chinese):
    tokenizer = made.of_small(lowercase, strip_accents, chinese)
    strip_accents = lowercase if strip_accents is None else strip_accents
    texts = small.hard_strings(2000)
    for text, encoding in zip(texts, tokenizer.encode_batch(texts), strict=True):
        want = small.tokenize(text, small.VOCAB, lowercase, strip_accents, chinese)
        assert encoding.tokens[1:-1] == want, ascii(text)


@pytest.mark.parametrize(
    ("settings", "text", "want"),
    [
        ({}, "café", ["cafe"]),
        ({"strip_accents": False}, "café", ["café"]),
        ({"strip_accents": False}, "CAFE\u0301", ["[UNK]"]),
        ({"lowercase": False}, "hacía", ["hacía"]),
        ({}, "HACÍA", ["hacia"]),
        ({"lowercase": False, "strip_accents": True}, "hacía", ["hacia"]),
        ({}, "中国，中！", ["中", "国", "，", "中", "！"]),
        ({"tokenize_chinese_chars": False}, "中国", ["中国"]),
        ({}, "①", ["①"]),
        ({}, "…", ["…"]),
        ({}, "Straße", ["straße"]),
        ({}, "ﬁ", ["ﬁ"]),
        ({}, "İ", ["i"]),
        ({}, "中\u3000国", ["中", "国"]),
        ({}, "the\u00a0quick", ["the", "quick"]),
        ({}, "a\u2028b", ["a", "b"]),
        ({}, "qu\u00adick", ["quick"]),
        ({}, "th\u00ade", ["the"]),
        ({}, "caf\u200be", ["cafe"]),
        ({}, "\ufeffthe", ["the"]),
        ({}, "\x00the\x07", ["the"]),
        ({}, "the \U000fe4fa quick", ["the", "quick"]),
        ({}, "👩\u200d💻", ["[UNK]"]),
        ({}, "🫠", ["[UNK]"]),
        ({}, "ΟΣ", ["ο", "##σ"]),
    ],
)
def test_characters_of_every_kind(settings, text, want):
    assert tokens(made.of_small(**settings), text) == want


@pytest.mark.parametrize("seed", [0, 2, 11, 20])  # with all but the first, tables were once a few rows too short
def test_random_vocabularies(seed):
    rng = random.Random(seed)
    letters = rng.choice(["ab", "abc", "abcdefgh", "aß中.#"])
    words = ["".join(rng.choices(letters, k=rng.randint(1, 9))) for _ in range(rng.choice((3, 20, 60)))]
    singles = [*letters, *(f"##{letter}" for letter in letters)] if seed % 2 else []
    vocab = [*small.SPECIAL, *words, *(f"##{word}" for word in words[::2]), *singles]
    rng.shuffle(vocab)
    texts = ["".join(rng.choices(f"{letters} ", k=rng.randint(1, 30))) for _ in range(100)]
    want = [small.tokenize(text, vocab, True, True, True) for text in texts]
    tokenizer = Tokenizer(vocab)
    assert [encoding.tokens[1:-1] for encoding in tokenizer.encode_batch(texts)] == want
    points = np.array([[ord(char) for char in text.ljust(30, "\0")] for text in texts], "int32")
    rows = np.asarray(tokenizer.code_points_to_features(points, None, 40)["token_ids"])
    assert [[vocab[i] for i in row[1 : len(found) + 1]] for row, found in zip(rows, want, strict=True)] == want


def test_longest_match_first(tokenizer):
    assert tokens(tokenizer, "unaffable wonderfully") == ["un", "##aff", "##able", "wonder", "##ful", "##ly"]


def test_words_up_to_a_hundred_letters(tokenizer):
    assert tokens(tokenizer, "a" * 100) == ["a"] + ["##a"] * 99
    assert tokens(tokenizer, "a" * 101) == ["[UNK]"]
    assert tokens(tokenizer, "a\u0301" * 100) == ["a"] + ["##a"] * 99


def test_of_equal_tokens_the_last_row_counts():
    tokenizer = Tokenizer([*small.VOCAB, "the"])
    assert tokenizer.encode("the").ids[1] == len(small.VOCAB)


def test_offsets_words_and_segments_of_a_pair(tokenizer):
    encoding = tokenizer.encode("The caf\u00e9\u0301\u0301!", "\u00ad Zz 中🫠")
    assert encoding.tokens == ["[CLS]", "the", "cafe", "!", "[SEP]", "[UNK]", "中", "[UNK]", "[SEP]"]
    assert encoding.offsets == [(0, 0), (0, 3), (4, 8), (10, 11), (0, 0), (2, 4), (5, 6), (6, 7), (0, 0)]
    assert encoding.word_ids == [None, 0, 1, 2, None, 0, 1, 2, None]
    assert encoding.segment_ids == [0] * 5 + [1] * 4


def test_special_tokens_in_text_are_plain_text_unless_allowed(tokenizer):
    text = "the[MASK]quick [unused1][SEP] [mask]"
    plain = tokenizer.encode(text)
    assert plain.ids.count(tokenizer.sep_id) == 1
    assert tokenizer.mask_id not in plain.ids
    encoding = tokenizer.encode(text, allowed_special=["[MASK]", "[unused1]"])
    assert encoding.tokens[1:5] == ["the", "[MASK]", "quick", "[unused1]"]
    assert encoding.offsets[1:5] == [(0, 3), (3, 9), (9, 14), (15, 24)]
    assert encoding.ids.count(tokenizer.sep_id) == 1
    assert encoding.ids.count(tokenizer.mask_id) == 1


def test_allowed_tokens_match_leftmost_and_longest():
    tokenizer = Tokenizer([*small.VOCAB, "<a>", "<a>b", "b<a"])
    allowed = ["<a>", "<a>b", "b<a"]
    assert tokens(tokenizer, "<a>b<a>", allowed_special=allowed) == ["<a>b", "<a>"]
    assert tokens(tokenizer, "<a<a>b", allowed_special=allowed)[-1] == "<a>b"
    assert tokens(tokenizer, "b<a>b<a>b<a", allowed_special=["b<a"]).count("b<a") == 3
    assert tokens(tokenizer, "b<a>b<a>b<a", allowed_special=allowed).count("b<a") == 3


def test_batch_equals_loop(tokenizer):
    texts = small.hard_strings(200, seed=3)
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]
    batch = tokenizer(texts, max_length=24)
    for row, text in enumerate(texts):
        alone = tokenizer([text], max_length=24)
        width = alone["token_ids"].shape[1]
        for name, array in alone.items():
            assert np.array_equal(batch[name][row, :width], array[0])
            assert not batch[name][row, width:].any()


def test_empty_blank_broken_and_very_long_texts(tokenizer):
    texts = ["", " \t\n", b"\xff\xfe", "a" * 5000, "\ud800the", b"caf\xc3\xa9"]
    features = tokenizer(texts, max_length=16)
    assert [int(row.sum()) - 2 for row in features["padding_mask"]] == [0, 0, 0, 1, 1, 1]
    assert features["token_ids"][3, 1] == tokenizer.unk_id
    assert tokens(tokenizer, "\ud800the") == ["the"]
    assert {array.dtype for array in features.values()} == {np.dtype("int32")}
    assert tokenizer([])["token_ids"].shape[0] == 0
    assert tokenizer.encode_batch([]) == []


def test_pickle_and_deep_copy_give_equal_ids(tokenizer):
    text = "unaffable café 中国"
    for twin in (pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer)):
        assert twin.encode(text) == tokenizer.encode(text)


def test_decode(tokenizer):
    assert tokenizer.decode(tokenizer.encode("The wonderful café, 中国!").ids) == "the wonderful cafe, 中国!"
    assert tokenizer.decode(tokenizer.encode("中国，中！un 中").ids) == "中国，中！un 中"
    assert tokenizer.decode([2, 6, 1, 4, 3]) == "un [UNK]"
    assert tokenizer.decode([2, 6, 3], skip_special_tokens=False) == "[CLS] un [SEP]"
    assert tokenizer.decode([]) == ""


def test_chinese_examples_of_the_literature():
    path = shared_data("vocab/bert-base-chinese/vocab.txt")
    tokenizer = Tokenizer.from_vocab(path, lowercase=False)
    features = tokenizer(["商务大床房"])
    assert [tokenizer.vocab[i] for i in features["token_ids"][0]] == ["[CLS]", *"商务大床房", "[SEP]"]
    assert features["padding_mask"].tolist() == [[1] * 7]
    assert features["segment_ids"].tolist() == [[0] * 7]
    pair = tokenizer(["巴黎是法国的首都"], ["埃菲尔铁塔在这里"])
    want = ["[CLS]", *"巴黎是法国的首都", "[SEP]", *"埃菲尔铁塔在这里", "[SEP]"]
    assert [tokenizer.vocab[i] for i in pair["token_ids"][0]] == want
    assert pair["segment_ids"].tolist() == [[0] * 10 + [1] * 9]
    assert pair["padding_mask"].tolist() == [[1] * 19]  # one mask over both: the first text attends to the second


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: Tokenizer([]), r"must hold \[PAD\], \[UNK\], \[CLS\] and \[SEP\], got 0 tokens"),
        (lambda t: Tokenizer(small.VOCAB[2:]), r"got \d+ tokens without \[PAD\], \[UNK\]"),
        (lambda t: Tokenizer(small.SPECIAL[:4]).mask_id, r"must hold \[MASK\] for this, got 4 tokens without it"),
        (lambda t: Tokenizer([*small.SPECIAL, LONG], added_tokens=[LONG]), "at most 255 letters, got one of 256"),
        (lambda t: t.decode([-1]), r"must be at least 0 and below \d+, got -1"),
        (lambda t: t("one text"), "`texts` must be a list of strings, got one string"),
        (lambda t: t(["a", None]), "`texts` must hold strings, got NoneType"),
        (lambda t: t(["a"], [3]), "`pairs` must hold strings, got int"),
        (lambda t: t(["a", "b"], ["a"]), "must have equal lengths, got 2 and 1"),
        (lambda t: t(["a"], max_length=1), "`max_length` must be at least 2, for .*, got 1"),
        (lambda t: t(["a"], ["b"], max_length=2), "`max_length` must be at least 3, for .*, got 2"),
        (lambda t: t.encode("a", allowed_special="[SEP]"), "must be a collection of tokens, got the string"),
        (lambda t: t.encode("a", allowed_special=["[NEW]"]), r"must hold tokens of the vocabulary, got '\[NEW\]'"),
        (lambda t: t.decode([5, 10_000]), r"must be at least 0 and below \d+, got 10000"),
    ],
)
def test_bad_input_is_named(tokenizer, call, message):
    with pytest.raises(ValueError, match=message):
        call(tokenizer)


@pytest.mark.parametrize(("rules", "limit"), [("huggingface", 100), ("google", 200)])
def test_a_token_over_the_limit_is_named_and_never_found(rules, limit):
    long = "a" * (limit + 1)
    sentence = f"must have at most {limit} letters to be found in a text, got 2 longer ones, the first in row 5 with"
    with pytest.warns(UserWarning, match=sentence):
        tokenizer = Tokenizer([*small.SPECIAL, long, "##" + long, "a" * limit, "##b"], rules=rules)
    assert tokenizer.encode("a" * limit).ids[1:-1] == [7]
    assert tokenizer.encode(long).tokens[1:-1] == ["[UNK]"]
    assert tokenizer.decode([5]) == long
