"""What went wrong in other tokenizers, by the numbers of the project's list of such cases.

P12 (added words) is in tests/test_added_tokens.py, P67 (`.keras` files) in tests/test_keras_files.py.
"""

import functools
import importlib.util

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.tokenization import Tokenizer, write_vocab
from tests.tokenization import small

ACCENTS = [*small.SPECIAL, *"c ##a ##f ##é cafe a f é hacia hacía e ##e \u0301 ##\u0301".split()]
WIDE = [*small.SPECIAL, *"你 好 ， 世 界 ！ , ! 1 ① … ... straße strasse i ﬁ fi a A Ａ".split()]
BLANKS = [*small.SPECIAL, *"你 好 世 界 hello world helloworld a b softhyphen".split()]
NEVER_SPLIT = [*small.SPECIAL, *"[unused1] hello world hi x [ ] mask sep".split()]


@functools.cache
def made(vocab, settings):
    return Tokenizer(vocab, **dict(settings))


def tokens(vocab, text, allowed_special=(), **settings):
    tokenizer = made(tuple(vocab), tuple(settings.items()))
    return tokenizer.encode(text, allowed_special=allowed_special).tokens[1:-1]


def test_p01_accents_go_with_lower_casing_unless_said_otherwise():
    assert tokens(ACCENTS, "café") == ["cafe"]
    assert tokens(ACCENTS, "café", strip_accents=False) == ["c", "##a", "##f", "##é"]
    assert tokens(ACCENTS, "cafe\u0301", lowercase=False) == ["cafe", "##\u0301"]  # the mark stays
    assert tokens(ACCENTS, "hacía hacia") == ["hacia", "hacia"]
    assert tokens(ACCENTS, "hacía hacia", strip_accents=False) == ["hacía", "hacia"]


def test_p02_special_tokens_in_raw_text_only_where_allowed():
    allowed = ["[MASK]", "[unused1]"]
    text = "hello[MASK]world [unused1]"
    assert tokens(NEVER_SPLIT, text, allowed) == ["hello", "[MASK]", "world", "[unused1]"]
    assert tokens(NEVER_SPLIT, "[mask]", allowed) == ["[", "mask", "]"]
    tokenizer = made(tuple(NEVER_SPLIT), ())
    assert tokenizer.encode("hi [SEP] x").ids.count(tokenizer.sep_id) == 1  # its own
    want = tokenizer([text], allowed_special=allowed)["token_ids"]
    got = tokenizer.strings_to_features(tf.constant([text]), allowed_special=allowed)["token_ids"]
    assert np.array_equal(got, want)


def test_p03_compatibility_characters_stay_what_they_are():
    assert tokens(WIDE, "你好，世界！") == ["你", "好", "，", "世", "界", "！"]
    assert tokens(WIDE, "① … Straße ﬁ") == ["①", "…", "straße", "ﬁ"]
    assert tokens(WIDE, "İ") == ["i"]
    assert tokens(WIDE, "Ａ", lowercase=False) == ["Ａ"]


def test_p04_every_blank_of_unicode_parts_words():
    assert tokens(BLANKS, "你好\u3000世界") == ["你", "好", "世", "界"]
    assert tokens(BLANKS, "hello\u00a0world") == ["hello", "world"]
    assert tokens(BLANKS, "a\u2028b") == tokens(BLANKS, "a\u2029b") == ["a", "b"]


def test_p05_invisible_characters_vanish_and_part_nothing():
    assert tokens(BLANKS, "soft\u00adhyphen") == ["softhyphen"]
    assert tokens(BLANKS, "hello\u200bworld") == ["helloworld"]
    assert tokens(BLANKS, "\ufeffhello") == tokens(BLANKS, "\x00hello\x07") == ["hello"]
    assert tokens(BLANKS, "hello \U000fe4fa world") == ["hello", "world"]
    assert tokens(BLANKS, "hello \U000fe4fa world", rules="google") == ["hello", "[UNK]", "world"]
    assert tokens(BLANKS, "👩\u200d💻") == tokens(BLANKS, "🫠") == ["[UNK]"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_p07_an_id_is_a_line_number(tmp_path, end):
    rows = [*small.SPECIAL[:4], "", "hello", "\u2028", "\u0085", "hello ", "hello", "world"]
    (tmp_path / "vocab.txt").write_bytes(b"\xef\xbb\xbf" + end.join(row.encode() for row in [*rows, ""]))
    tokenizer = Tokenizer.from_vocab(tmp_path / "vocab.txt")
    assert tokenizer.vocab_size == len(rows)
    assert tokenizer.encode("hello world").ids[1:-1] == [9, 10]
    write_vocab(tokenizer.vocab, tmp_path / "again.txt")
    assert (tmp_path / "again.txt").read_bytes() == b"\n".join(row.encode() for row in [*rows, ""])


def test_p09_small_vocabularies_with_unk_first_in_python_and_in_graphs():
    tokenizer = Tokenizer(["[UNK]", "[CLS]", "[SEP]", "[PAD]", "a", "##b", "中"])
    texts = ["ab a 中b", *small.hard_strings(2000, seed=31)]
    ragged = tf.function(tokenizer.strings_to_ragged)(tf.constant(texts)).to_list()
    assert ragged == [encoding.ids[1:-1] for encoding in tokenizer.encode_batch(texts)]
    assert {i for row in ragged for i in row} >= {0, 4, 5, 6}


def test_p72_all_of_these_tests_run_without_tensorflow_text():
    assert importlib.util.find_spec("tensorflow_text") is None
    with pytest.raises(ImportError):
        importlib.import_module("tensorflow_text")
