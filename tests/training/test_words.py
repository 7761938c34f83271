import sys

import numpy as np
import pytest

from keras_bert.tokenization.tokenizer import Tokenizer
from keras_bert.training.masking import maskable_table
from keras_bert.training.pairs import pair_maker, tokenize_documents
from keras_bert.training.word_masking import mask_words
from keras_bert.training.words import find_segmenter, tokenize_words, word_borders

CHARACTERS = "使用语言模型来预测下一个词的概率。"
VOCAB = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *dict.fromkeys(CHARACTERS),
    "play",
    "##ing",
    "the",
    ",",
    "!",
    "3",
)
TOKENIZER = Tokenizer(VOCAB)


def words(texts, segmenter=None):
    """Each text as lists of tokens, one list a word."""
    ids, lengths, starts = tokenize_words(texts, TOKENIZER, segmenter)
    assert ids.dtype == np.int32
    found, at = [], 0
    for length in lengths:
        found.append([])
        for token, begins in zip(ids[at : at + length], starts[at : at + length], strict=True):
            if begins:
                found[-1].append([])
            found[-1][-1].append(VOCAB[token])
        at += length
    return found


def segmented(*parts):
    return lambda text: list(parts)


def test_by_word_piece():
    assert words(["the playing, 使用", "", "ing play", "3 3"]) == [
        [["the"], ["play", "##ing"], [","], ["使"], ["用"]],
        [],
        [["[UNK]"], ["play"]],
        [["3"], ["3"]],
    ]


def test_by_a_segmenter():
    assert words(
        ["使用语言模型", "模型"], lambda text: {"使用语言模型": ["使用", "语言", "模型"]}.get(text, [text])
    ) == [
        [["使", "用"], ["语", "言"], ["模", "型"]],
        [["模", "型"]],
    ]
    # white space is not compared; a word that the segmenter cuts and WordPiece does not stays whole
    assert words(["使用 playing"], segmented("使用", "play", "ing")) == [[["使", "用"], ["play", "##ing"]]]
    assert words(["使用 语言 模型。"], str.split) == [[["使", "用"], ["语", "言"], ["模", "型", "。"]]]
    assert words(["", " "], segmented()) == [[], []]


@pytest.mark.parametrize(
    "parts", [("使用", "语文", "模型"), ("使用",), ("使用", "语言", "模型", "来"), ("语言", "使用", "模型"), ()]
)
def test_words_that_are_not_the_text_fall_back_to_characters(parts):  # P57
    assert words(["使用语言模型", "模型"], segmented(*parts))[0] == [["使"], ["用"], ["语"], ["言"], ["模"], ["型"]]
    assert words(["使用语言 playing"], segmented(*parts)) == [[["使"], ["用"], ["语"], ["言"], ["play", "##ing"]]]


def test_word_borders():
    assert word_borders(" ab c", ["ab", " ", "c"]).tolist() == [1, 4]
    assert word_borders("abc", ["a", "c"]).tolist() == [0, 1, 2]


def test_masked_sets_are_unions_of_the_segmenters_words():  # P57
    sentences = ["使用语言模型", "来预测下一个词的概率。"]
    cut = {sentences[0]: ["使用", "语言", "模型"], sentences[1]: ["来", "预测", "下一个", "词", "的", "概率", "。"]}
    documents = tokenize_documents([sentences * 20, sentences], TOKENIZER, cut.__getitem__)
    count, make, _ = pair_maker(documents, max_length=48, cls_id=2, sep_id=3, pad_id=0, seed=1)
    features = make(np.zeros(40 * count, np.int64), np.arange(40 * count) % count)
    options = {"maskable": maskable_table(VOCAB, range(5)), "mask_id": 4, "max_predictions": 9, "seed": 3}
    seen = set()
    for epoch in range(5):
        masked = mask_words(features, epoch=epoch, rate=0.2, **options)
        for ids, numbers, positions, weights in zip(
            features["token_ids"].numpy(),
            features["word_ids"].numpy(),
            masked["masked_positions"].numpy(),
            masked["weights"].numpy(),
            strict=True,
        ):
            assert ((numbers >= 0) == (ids > 4)).all()
            taken = np.sort(positions[weights == 1])
            for number in set(numbers[taken]):
                assert set(np.flatnonzero(numbers == number)) <= set(taken)
                seen.add("".join(VOCAB[i] for i in ids[numbers == number]))
    # a row's first word may have lost its front
    whole_words = {word for parts in cut.values() for word in parts}
    assert whole_words <= seen
    assert all(any(whole.endswith(word) or whole.startswith(word) for whole in whole_words) for word in seen)
    assert not [token for token in np.unique(features["token_ids"]) if VOCAB[token].startswith("##")]


def test_named_segmenters(monkeypatch):
    assert find_segmenter(None) is None
    assert find_segmenter("spaces")("使用 语言") == ["使用", "语言"]
    assert find_segmenter(len) is len
    with pytest.raises(ValueError, match=r"^`segmenter` must be one of jieba, spaces or a function, got 'jiba'\.$"):
        find_segmenter("jiba")
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(ImportError, match=r'^jieba is missing: pip install "keras3-bert\[chinese\]"\.$'):
        find_segmenter("jieba")


def test_jieba():
    pytest.importorskip("jieba", reason="needs jieba, which is not installed")
    assert words(["使用语言模型来预测"], find_segmenter("jieba")) == [
        [["使", "用"], ["语", "言"], ["模", "型"], ["来"], ["预", "测"]]
    ]
