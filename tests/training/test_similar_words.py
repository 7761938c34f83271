import math

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.tokenization.tokenizer import Tokenizer
from keras_bert.training.masking import maskable_table
from keras_bert.training.pairs import tokenize_documents
from keras_bert.training.pretraining_batches import pretraining_batches
from keras_bert.training.similar_words import similar_words
from keras_bert.training.word_masking import mask_words

VOCAB = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", *"big large huge small play work talk the".split(),
         "##ed", "##ing", *"使用语言模型应话句子", *(f"w{i}" for i in range(60)))  # fmt: skip
TOKENIZER = Tokenizer(VOCAB)
TABLE = {
    "big": ["large", "huge", "big", "played", "unknown", "[MASK]"],  # only the first two can be put in its place
    "played": ["worked", "talked", "played", "talking"],
    "Big": ["small"],  # one with "big" for this tokenizer
    "语言": ["话语", "句子", "话"],
    "small": ["played"],
}
LIKE = {"big": {"large", "huge", "small"}, "play ##ed": {"work ##ed", "talk ##ed", "talk ##ing"},
        "语 言": {"话 语", "句 子"}}  # fmt: skip
MASKABLE = maskable_table(VOCAB, TOKENIZER.special_ids)


def words_of(table):
    """The table as it was understood: dict from words to the sets of their similar ones, pieces parted by spaces."""
    from keras_bert.training.word_replacement import word_hashes

    found = {}
    for text in LIKE:
        ids = np.array([VOCAB.index(piece) for piece in text.split()], np.int32)
        key = word_hashes(tf.constant(ids), tf.range(len(ids)), np.zeros(len(ids), np.int32), 1).numpy()[0]
        (entry,) = np.flatnonzero(table.hashes == key)
        firsts = table.firsts[table.starts[entry] : table.starts[entry + 1]]
        found[text] = {" ".join(VOCAB[i] for i in table.pieces[first : first + len(ids)]) for first in firsts}
    return found


def test_table_from_a_dict_a_file_or_a_function(tmp_path):
    table = similar_words(TABLE, TOKENIZER)
    assert len(table.hashes) == 3
    assert (np.diff(table.hashes) > 0).all()
    assert words_of(table) == LIKE
    path = tmp_path / "similar.tsv"
    path.write_text("\n".join("\t".join([word, *others]) for word, others in TABLE.items()) + "\n\n", encoding="utf-8")
    assert words_of(similar_words(path, TOKENIZER)) == LIKE
    assert words_of(similar_words(lambda word: TABLE.get(word, []), TOKENIZER, [*TABLE, "the"])) == LIKE


def test_refused(tmp_path):
    with pytest.raises(ValueError, match=r"^A function of similar words needs `words`, a list of the words to ask"):
        similar_words(TABLE.get, TOKENIZER)
    with pytest.raises(ValueError, match=r"^A word must have a similar one with equally many pieces, of 1 words none"):
        similar_words({"small": ["played"]}, TOKENIZER)
    (tmp_path / "bad.tsv").write_text("big\tlarge\nsmall\n")
    with pytest.raises(ValueError, match=r"bad\.tsv must have a word, a tab and similar words in line 2, got 'small'"):
        similar_words(tmp_path / "bad.tsv", TOKENIZER)
    documents = tokenize_documents([["big", "small"], ["the", "the"]], TOKENIZER)
    options = {"max_length": 8, "batch_size": 2, "max_predictions": 2, "seed": 0}
    with pytest.raises(ValueError, match=r"^Similar words need `masking` to be words or spans, got tokens\.$"):
        pretraining_batches(documents, TOKENIZER, similar=similar_words(TABLE, TOKENIZER), **options)


def rows(count=10_000):
    """Rows of the three words of the table, and of words that it does not know, with [CLS] and [SEP]."""
    rng = np.random.default_rng(0)
    known = [[VOCAB.index(piece) for piece in text.split()] for text in LIKE]
    token_ids, word_ids = np.full((count, 20), 0, np.int32), np.full((count, 20), -1, np.int32)
    for row in range(count):
        words = [known[i] if i < 3 else [VOCAB.index(f"w{rng.integers(60)}")] for i in rng.permutation(6)]
        ids = [token for word in words for token in word]
        numbers = [number for number, word in enumerate(words) for _ in word]
        token_ids[row, : len(ids) + 2] = [2, *ids, 3]
        word_ids[row, 1 : len(ids) + 1] = numbers
    return {
        "token_ids": token_ids,
        "word_ids": word_ids,
        "padding_mask": (token_ids > 0).astype(np.int32),
        "example_index": np.arange(count, dtype=np.int64),
    }


@pytest.mark.parametrize("spans", [None, pytest.param((0.4, 0.3, 0.2, 0.1), marks=pytest.mark.slow)])
def test_ten_thousand_rows(spans):
    features = rows()
    masked = mask_words(features, maskable=MASKABLE, mask_id=4, max_predictions=5, seed=3, epoch=1, rate=0.3,
                        span_lengths=spans, similar=similar_words(TABLE, TOKENIZER))  # fmt: skip
    masked = {name: np.asarray(value) for name, value in masked.items()}
    assert not np.isin(masked["token_ids"], [1, 4, 5]).any()  # no [MASK], and nothing that is never drawn
    counts = {"similar": 0, "kept": 0, "random": 0}
    drawn, unknown, kept = {}, 0, 0
    for row in range(len(features["token_ids"])):
        chosen = set(masked["masked_positions"][row, masked["weights"][row] > 0].tolist())
        words = features["word_ids"][row]
        for number in range(6):
            place = np.flatnonzero(words == number)
            assert len(chosen & set(place.tolist())) in (0, len(place))
            old, new = ([VOCAB[i] for i in ids[row, place]] for ids in (features["token_ids"], masked["token_ids"]))
            if place[0] not in chosen:
                assert old == new
                continue
            old, new = " ".join(old), " ".join(new)
            if old not in LIKE:
                unknown, kept = unknown + 1, kept + (old == new)
                continue
            kind = "kept" if old == new else "similar" if new in LIKE[old] else "random"
            counts[kind] += 1
            if kind == "similar":
                drawn.setdefault(old, []).append(new)
    total = sum(counts.values())
    for kind, share in (("similar", 0.8), ("random", 0.1), ("kept", 0.1)):
        # a random piece may be the word's own or a similar one: of 80 pieces, one-piece words have 4 of these
        slack = 3 * math.sqrt(total * share * (1 - share)) + total * 0.1 * 4 / 80
        assert abs(counts[kind] - total * share) < slack, counts
    assert abs(kept - 0.1 * unknown) < 3 * math.sqrt(unknown * 0.09) + unknown * 0.9 / 80  # they become random ones
    for old, words in drawn.items():
        for new in LIKE[old]:
            assert words.count(new) > 0.8 * len(words) / len(LIKE[old])


def test_a_word_is_one_draw_and_each_epoch_another():
    features = rows(200)
    options = {"maskable": MASKABLE, "mask_id": 4, "max_predictions": 5, "seed": 3, "rate": 0.3}
    options["similar"] = similar_words(TABLE, TOKENIZER)
    one, again, other = (np.asarray(mask_words(features, epoch=e, **options)["token_ids"]) for e in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    part = {name: value[50:60] for name, value in features.items()}
    np.testing.assert_array_equal(mask_words(part, epoch=0, **options)["token_ids"], one[50:60])


def test_batches_with_similar_words():
    documents = [["the big played", "big played", "the the big"], ["played big", "big big played the"]]
    tokenized = tokenize_documents(documents, TOKENIZER)
    found = pretraining_batches(
        tokenized, TOKENIZER, max_length=16, batch_size=4, max_predictions=4, seed=0, steps=20, rate=0.25,
        masking="spans", similar=similar_words(TABLE, TOKENIZER),
    )  # fmt: skip
    ids = np.concatenate([x["token_ids"].numpy() for x, _, _ in found])
    assert 4 not in ids
    assert {VOCAB.index("large"), VOCAB.index("huge"), VOCAB.index("work")} <= set(ids.ravel().tolist())
