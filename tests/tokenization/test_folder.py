"""A tokenizer's folder: ours opened by `tokenizers`, theirs opened by us, and what we do not support."""

import json

import pytest
import tokenizers

from keras_bert.tokenization import Tokenizer, write_vocab
from tests.conftest import shared_data
from tests.tokenization import small

SETTINGS = [(True, None, True, True), (False, True, False, True), (False, None, True, False)]


@pytest.mark.parametrize(
    ("settings", "without"),
    [(SETTINGS[0], None), (SETTINGS[1], "vocab.txt"), (SETTINGS[2], "tokenizer.json")]
    + [
        pytest.param(SETTINGS[i], name, marks=pytest.mark.slow)
        for i, name in enumerate(("vocab.txt", "tokenizer.json"))
    ],
)
def test_round_trip(tmp_path, settings, without):
    tokenizer = Tokenizer(small.VOCAB, *settings)
    tokenizer.save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"vocab.txt", "tokenizer_config.json", "tokenizer.json"}
    reference = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    if without:
        (tmp_path / without).unlink()
    loaded = Tokenizer.from_folder(tmp_path)
    texts = [text.replace("\0", "") for text in small.hard_strings(100, seed=9)]
    got = loaded.lowercase, loaded.strip_accents, loaded.tokenize_chinese_chars, loaded.clean_text
    assert got == settings
    allowed = loaded.special_tokens
    encodings = loaded.encode_batch(texts, allowed_special=allowed)
    assert encodings == tokenizer.encode_batch(texts, allowed_special=allowed)
    assert [(e.ids, e.offsets) for e in encodings] == [(e.ids, e.offsets) for e in reference.encode_batch(texts)]


def test_tokenizer_config_wins_over_tokenizer_json(tmp_path):
    Tokenizer(small.VOCAB).save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false, "strip_accents": true}', "utf-8")
    loaded = Tokenizer.from_folder(tmp_path)
    assert (loaded.lowercase, loaded.strip_accents, loaded.tokenize_chinese_chars) == (False, True, True)


def test_genuine_folder(minilm):
    tokenizer = Tokenizer.from_folder(minilm)
    assert tokenizer.vocab_size == 30_522
    assert tokenizer.special_ids == (0, 100, 101, 102, 103)
    assert tokenizer.encode("Unaffable").ids == [101, 14477, 20961, 3468, 102]


@pytest.mark.parametrize(
    "without",
    [pytest.param(None, marks=pytest.mark.slow), pytest.param("vocab.txt", marks=pytest.mark.slow), "tokenizer.json"],
)
def test_added_tokens_are_kept_and_found_as_by_tokenizers(tmp_path, without):
    tokenizer = Tokenizer([*small.VOCAB, "covid", "<e 1>"], added_tokens=["covid", "<e 1>", "[unused1]"])
    tokenizer.save(tmp_path)
    reference = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    if without:
        (tmp_path / without).unlink()
    loaded = Tokenizer.from_folder(tmp_path)
    assert set(loaded.added_tokens) == {"covid", "<e 1>", "[unused1]"}
    texts = ["covid Covid covids the<e 1>the [unused1] <e 1", "", "cocovid中<E 1>"]
    texts += [text.replace("a", "covid").replace("e", "<e 1>") for text in small.hard_strings(200, seed=10)]
    encodings = loaded.encode_batch(texts, allowed_special=loaded.special_tokens)
    for text, mine, theirs in zip(texts, encodings, reference.encode_batch(texts), strict=True):
        assert (mine.ids, mine.offsets) == (theirs.ids, theirs.offsets), ascii(text)
    assert loaded.decode(loaded.encode("the covid").ids) == "the covid"


def test_tokens_added_by_others_follow_the_vocabulary(tmp_path):
    vocab = tuple(dict.fromkeys(small.VOCAB))
    Tokenizer(vocab).save(tmp_path)
    reference = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    reference.add_tokens([tokenizers.AddedToken("covid", normalized=False)])
    reference.add_special_tokens(["<s1>"])
    reference.save(str(tmp_path / "tokenizer.json"))
    loaded = Tokenizer.from_folder(tmp_path)
    assert loaded.vocab == (*vocab, "covid", "<s1>")
    assert loaded.added_tokens == ("covid",)
    assert loaded.encode("covid<s1>", allowed_special=["<s1>"]).ids == reference.encode("covid<s1>").ids


def test_repeated_and_blank_rows_survive(tmp_path):
    vocab = [*small.VOCAB, "", "the", "", "[unused2]"]
    Tokenizer(vocab).save(tmp_path)
    loaded = Tokenizer.from_folder(tmp_path)
    assert loaded.vocab == tuple(vocab)
    (tmp_path / "vocab.txt").unlink()
    from_json = Tokenizer.from_folder(tmp_path)
    assert from_json.vocab_size == len(vocab)
    assert from_json.encode("the").ids == loaded.encode("the").ids


def edit(path, change):
    content = json.loads(path.read_text("utf-8"))
    change(content)
    path.write_text(json.dumps(content), "utf-8")


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (
            "tokenizer.json",
            lambda c: c["model"].update(type="BPE"),
            "`model` in tokenizer.json must be WordPiece, got BPE",
        ),
        ("tokenizer.json", lambda c: c.update(normalizer=None), "`normalizer` .* must be BertNormalizer, got None"),
        ("tokenizer.json", lambda c: c["model"].update(max_input_chars_per_word=200), "must be 100, got 200"),
        ("tokenizer.json", lambda c: c["added_tokens"].append({"content": "<x>", "id": 999}), r"got id 999 for '<x>'"),
        (
            "tokenizer.json",
            lambda c: c["added_tokens"].append({"content": "covid", "normalized": True}),
            "must be found as they stand, got `normalized` true for 'covid'",
        ),
        ("tokenizer.json", lambda c: c["model"]["vocab"].update(un=999), "must agree, got two ids for 'un'"),
        ("tokenizer_config.json", lambda c: c.update(tokenizer_class="T5Tokenizer"), "`tokenizer_class` T5Tokenizer"),
        ("tokenizer_config.json", lambda c: c.update(sep_token="</s>"), r"`sep_token` .* must be \[SEP\], got </s>"),
        ("tokenizer_config.json", lambda c: c.update(never_split=["a"]), "`never_split` .* must be empty"),
        ("tokenizer_config.json", lambda c: c.update(do_basic_tokenize=False), "`do_basic_tokenize` .* must be true"),
    ],
)
def test_other_kinds_are_named(tmp_path, file, change, message):
    Tokenizer(small.VOCAB).save(tmp_path)
    edit(tmp_path / file, change)
    with pytest.raises(ValueError, match=message):
        Tokenizer.from_folder(tmp_path)


def test_an_empty_folder_and_a_broken_file_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"must hold vocab.txt or tokenizer.json, got neither"):
        Tokenizer.from_folder(tmp_path)
    write_vocab(small.VOCAB, tmp_path / "vocab.txt")
    (tmp_path / "tokenizer_config.json").write_text("{", "utf-8")
    with pytest.raises(ValueError, match=r"tokenizer_config.json is not JSON in UTF-8"):
        Tokenizer.from_folder(tmp_path)


def test_google_folder_has_only_a_vocabulary():
    tokenizer = Tokenizer.from_folder(shared_data("checkpoints/google_tf1_tiny"))
    assert tokenizer.lowercase
    assert tokenizer.vocab_size == 15
