"""Against Hugging Face `tokenizers`: every code point, random strings, published vectors, truncation. 0 differences."""

import itertools
import json
import random

import numpy as np
import pytest
from tokenizers import BertWordPieceTokenizer

from keras_bert.tokenization import Tokenizer
from keras_bert.tokenization.folder import as_tokenizers
from tests.conftest import shared_data
from tests.tokenization import made, small

VOCABULARIES = {
    "bert-base-uncased": True,
    "bert-base-cased": False,
    "bert-base-chinese": False,
    "bert-base-multilingual-cased": False,
}
BOTH = [
    "bert-base-uncased",
    *(pytest.param(name, marks=pytest.mark.slow) for name in VOCABULARIES if name != "bert-base-uncased"),
]
VECTORS = {
    "bert-base-uncased": ("bert-base-uncased", True),
    "bert-base-cased": ("bert-base-cased", False),
    "bert-base-chinese": ("bert-base-chinese", False),
    "bert-base-chinese-lowercase": ("bert-base-chinese", True),
    "bert-base-multilingual-cased": ("bert-base-multilingual-cased", False),
}
RANGES = [(32, 126)] * 6 + [(1, 0x2FF), (0x300, 0x36F), (0x4E00, 0x9FFF), (0x370, 0xD7FF), (0xE000, 0xFFFF)]
RANGES.append((0x10000, 0x2FFFF))


@pytest.fixture(scope="module", params=["bert-base-uncased"])
def both(request):
    path = shared_data(f"vocab/{request.param}/vocab.txt")
    lowercase = VOCABULARIES[request.param]
    reference = BertWordPieceTokenizer(str(path), lowercase=lowercase)
    reference._tokenizer.encode_special_tokens = True  # [PAD] in a text is text
    return made.published(request.param, lowercase), reference


@pytest.fixture(scope="module")
def tokenizer():
    return made.of_small()


def differences(tokenizer, reference, texts):
    """Texts whose ids, offsets or word numbers differ."""
    mine, theirs = tokenizer.encode_batch(texts), reference.encode_batch(texts)
    return [
        ascii(text)
        for text, a, b in zip(texts, mine, theirs, strict=True)
        if a.ids != b.ids or a.offsets != b.offsets or a.word_ids != b.word_ids
    ]


@pytest.mark.parametrize("both", BOTH, indirect=True)
def test_every_code_point_between_two_letters(both):
    code_points = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
    assert len(code_points) == 1_112_063
    texts = [" ".join(f"a{chr(c)}a" for c in chunk) for chunk in np.array_split(code_points, 2000)]
    assert differences(*both, texts) == []


def random_strings(count):
    rng = random.Random(0)
    return ["".join(chr(rng.randint(*rng.choice(RANGES))) for _ in range(rng.randint(0, 40))) for _ in range(count)]


def test_random_strings(both):
    assert differences(*both, random_strings(10_000)) == []


@pytest.mark.slow
@pytest.mark.parametrize("both", VOCABULARIES, indirect=True)
def test_a_hundred_thousand_random_strings(both):
    assert differences(*both, random_strings(100_000)) == []


@pytest.mark.slow
@pytest.mark.parametrize("both", VOCABULARIES, indirect=True)
def test_all_texts_of_the_shared_data(both):
    contents = [file.read_bytes() for file in sorted(shared_data("").rglob("*")) if file.is_file()]
    readable = [content for content in contents if b"\0" not in content[:8192]]  # the others are weights and models
    lines = [line for content in readable for line in content.decode("utf-8", "replace").replace("\0", "").split("\n")]
    texts = [line[start : start + 2000] for line in lines for start in range(0, len(line), 2000)]
    assert len(texts) > 100_000
    found = []
    for start in range(0, len(texts), 20_000):
        found += differences(*both, texts[start : start + 20_000])
    assert found == []


def test_runs_of_marks(both):
    rng = random.Random(1)
    marks = [*range(0x300, 0x370), *range(0x483, 0x488), *range(0x591, 0x5BE), *range(0x8D3, 0x900), 0x302E, 0xA953]
    marks += [0x1B44, 0x1DFB, 0x200D, 0x34F, 0xAD, 0x1E000, 0x94D, 0xE38]
    texts = [
        "".join(rng.choice(["a", " ", "é", *map(chr, rng.choices(marks, k=6))]) for _ in range(30)) for _ in range(3000)
    ]
    assert differences(*both, texts) == []


@pytest.mark.slow
@pytest.mark.parametrize("both", VOCABULARIES, indirect=True)
@pytest.mark.parametrize("form", ["{}", "{}a", "a {}"], ids=["alone", "at a word start", "after a space"])
def test_every_code_point_elsewhere(both, form):
    code_points = np.array([c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000])
    texts = [" ".join(form.format(chr(c)) for c in chunk) for chunk in np.array_split(code_points, 2000)]
    assert differences(*both, texts) == []


@pytest.mark.parametrize("name", VECTORS)
def test_published_vectors(name):
    vocab, lowercase = VECTORS[name]
    tokenizer = made.published(vocab, lowercase)
    lines = shared_data(f"tokenizer_vectors/{name}.jsonl").read_text(encoding="utf-8").split("\n")
    rows = [json.loads(line) for line in lines if line]
    assert len(rows) == 128
    texts, pairs = [row["text"] for row in rows], [row.get("text_pair", "") for row in rows]
    singles, doubles = (tokenizer.encode_batch(texts, p, tokenizer.special_tokens) for p in (None, pairs))
    for row, single, double in zip(rows, singles, doubles, strict=True):
        encoding = double if "text_pair" in row else single
        assert encoding.ids == row["ids"], row["text"]
        assert encoding.tokens == row["tokens"]
        assert encoding.offsets == [tuple(offset) for offset in row["offsets"]], row["text"]
        assert encoding.segment_ids == row.get("type_ids", encoding.segment_ids)


@pytest.mark.parametrize(
    "settings",
    [
        settings if settings in small.SETTINGS else pytest.param(settings, marks=pytest.mark.slow)
        for settings in itertools.product([True, False], [None, True, False], [True, False])
    ],
)
def test_all_settings_on_a_small_vocabulary(settings):
    tokenizer = made.of_small(*settings)
    reference = as_tokenizers(tokenizer)
    reference.encode_special_tokens = True
    assert differences(tokenizer, reference, small.hard_strings(2000, seed=5)) == []


def test_without_cleaning():
    tokenizer = Tokenizer([*small.VOCAB, "\u00ad", "##\u200b", "\x0b"], clean_text=False)
    reference = as_tokenizers(tokenizer)
    reference.encode_special_tokens = True
    texts = [
        "a\x0bb a\x85b \x1c",
        "\u200b a\u200ba \ufffda",
        "\ue000 \u00ad \x01e\u0301",
        *small.hard_strings(2000, seed=12),
    ]
    assert differences(tokenizer, reference, [text.replace("\0", "") for text in texts]) == []  # 0 is padding here


def test_special_tokens_on_a_small_vocabulary(tokenizer):
    reference = as_tokenizers(tokenizer)
    texts = [text.replace("9", "[SEP]").replace("8", "[") for text in small.hard_strings(2000, seed=6)]
    mine = tokenizer.encode_batch(texts, allowed_special=tokenizer.special_tokens)
    for text, one, two in zip(texts, mine, reference.encode_batch(texts), strict=True):
        assert (one.ids, one.offsets) == (two.ids, two.offsets), ascii(text)


@pytest.mark.parametrize("max_length", [3, 4, 5, 8, 13, 18, 19, 25])
def test_longest_first_truncation(tokenizer, max_length):
    reference = as_tokenizers(tokenizer)
    reference.enable_truncation(max_length, strategy="longest_first")
    lengths = list(itertools.product(range(15), repeat=2))
    texts, pairs = (["the " * pair[side] for pair in lengths] for side in (0, 1))
    features = tokenizer(texts, [pair.replace("the", "un") for pair in pairs], max_length)
    encodings = reference.encode_batch(list(zip(texts, [pair.replace("the", "un") for pair in pairs], strict=True)))
    for row, encoding in enumerate(encodings):
        width = len(encoding.ids)
        assert features["token_ids"][row, :width].tolist() == encoding.ids
        assert features["segment_ids"][row, :width].tolist() == encoding.type_ids
        assert int(features["padding_mask"][row].sum()) == width
    assert features["token_ids"].shape[1] == max(len(encoding.ids) for encoding in encodings)
