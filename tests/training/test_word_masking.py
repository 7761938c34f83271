import math

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.training.masking import maskable_table
from keras_bert.training.word_masking import continuation_table, mask_words, number_words, span_starts, word_starts
from tests.training import hash_twin

VOCAB = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", *(f"w{i}" for i in range(90)),
         *(f"##p{i}" for i in range(40)), "##")  # fmt: skip
PAD, UNK, CLS, SEP, MASK = range(5)
MASKABLE = maskable_table(VOCAB, range(5))
GOES_ON = continuation_table(VOCAB)
MACBERT = (0.4, 0.3, 0.2, 0.1)


def sequences(count, length=64, seed=0, longest=None):
    """Rows of words of one to four pieces, some tokens unknown, with a [SEP] in the middle and at the end."""
    rng = np.random.default_rng(seed)
    token_ids = rng.integers(6, 96, (count, length)).astype(np.int32)
    pieces = rng.random((count, length)) < 0.25
    token_ids[pieces] = rng.integers(96, 136, pieces.sum())
    token_ids[rng.random((count, length)) < 0.02] = UNK
    ends = rng.integers(3, longest or length, count)
    for row, end in enumerate(ends):
        token_ids[row, end], token_ids[row, end // 2 + 1], token_ids[row, end + 1 :] = SEP, SEP, PAD
    token_ids[:, 0] = CLS
    token_ids[:, 1] = 7
    padding_mask = (np.arange(length) <= ends[:, None]).astype(np.int32)
    features = {"token_ids": token_ids, "padding_mask": padding_mask, "example_index": np.arange(count, dtype=np.int64)}
    features["word_ids"] = number_words(features, GOES_ON)["word_ids"].numpy()
    return features


def mask(features, seed=7, epoch=0, max_predictions=12, **options):
    masked = mask_words(features, maskable=MASKABLE, mask_id=MASK, max_predictions=max_predictions, seed=seed,
                        epoch=epoch, **options)  # fmt: skip
    return {name: np.asarray(value) for name, value in masked.items()}


def units(ids, words, padding):
    """The words of a row as lists of positions, those that may be chosen."""
    found = []
    for position in range(len(ids)):
        if position and words[position] == words[position - 1]:
            found[-1].append(position)
        else:
            found.append([position])
    return [unit for unit in found if all(MASKABLE[ids[p]] and padding[p] for p in unit)]


def within_3_sigma(count, total, probability):
    return abs(count - total * probability) <= 3 * math.sqrt(total * probability * (1 - probability))


@pytest.mark.parametrize("span_lengths", [None, MACBERT])
@pytest.mark.parametrize("rate", [0.15, 0.3])
def test_ten_thousand_sequences(span_lengths, rate):
    features = sequences(10_000)
    masked = mask(features, rate=rate, span_lengths=span_lengths, max_predictions=20)
    chosen = masked["weights"] == 1
    rows, _ = np.nonzero(chosen)
    columns = masked["masked_positions"][chosen]
    old, new = features["token_ids"][rows, columns], masked["token_ids"][rows, columns]
    np.testing.assert_array_equal(masked["labels"][chosen], old)
    assert MASKABLE[old].all()
    taken = np.zeros(features["token_ids"].shape, bool)
    taken[rows, columns] = True
    assert taken.sum() == len(rows)  # no position twice
    np.testing.assert_array_equal(masked["token_ids"][~taken], features["token_ids"][~taken])

    inside = features["word_ids"][:, 1:] == features["word_ids"][:, :-1]  # a token and the one before are one word
    assert (taken[:, 1:] == taken[:, :-1])[inside].all()  # so words are whole
    maskable = (MASKABLE[features["token_ids"]] & (features["padding_mask"] == 1)).sum(axis=1)
    long = maskable >= 20
    expected = np.minimum(np.maximum(np.round(rate * maskable), 1), 20)
    assert (taken.sum(axis=1) > expected)[long].mean() < 0.01  # where no word or span is as small as that
    assert within_3_sigma(taken[long].sum(), expected[long].sum() / rate, rate)
    has_word = np.array([bool(units(*row)) for row in zip(features["token_ids"][:500], features["word_ids"][:500],
                                                           features["padding_mask"][:500], strict=True)])  # fmt: skip
    assert (taken[:500].any(axis=1) == has_word).all()

    total, words = len(rows), MASKABLE.sum()
    assert within_3_sigma((new == MASK).sum(), total, 0.8)
    assert within_3_sigma((new == old).sum(), total, 0.1 + 0.1 / words)
    assert MASKABLE[new[new != MASK]].all()
    for name in ("masked_positions", "labels"):
        assert (masked[name][~chosen] == 0).all()


def test_equals_plain_python():
    features = sequences(120, seed=2)
    masked = mask(features, seed=11, epoch=4, rate=0.3)
    for row in range(120):
        ids = features["token_ids"][row]
        key = hash_twin.stream(hash_twin.example_key(11, 4, row), "mask/choice")
        candidates = units(ids, features["word_ids"][row], features["padding_mask"][row])
        candidates.sort(key=lambda unit: -(int(hash_twin.draw(key, unit[0])) >> 1))
        maskable = int((MASKABLE[ids] & (features["padding_mask"][row] == 1)).sum())
        candidates = [unit for unit in candidates if len(unit) <= 12]
        budget, taken = max(round(0.3 * maskable), 1, min(map(len, candidates), default=0)), []
        for unit in candidates:
            if len(taken) + len(unit) <= min(budget, 12):
                taken += unit
        assert masked["masked_positions"][row][masked["weights"][row] == 1].tolist() == taken


def test_words_are_chosen_alike_whatever_their_place():
    count, length = 20_000, 24
    token_ids = np.tile(np.array([10, 96] * 12, np.int32), (count, 1))
    features = {"token_ids": token_ids, "padding_mask": np.ones_like(token_ids), "example_index": np.arange(count)}
    masked = mask(number_words(features, GOES_ON), max_predictions=4)
    drawn = np.bincount(masked["masked_positions"].ravel(), minlength=length)
    assert (drawn[::2] == drawn[1::2]).all()
    assert (abs(drawn - count * 4 / length) < 5 * math.sqrt(count * 4 / length)).all()


def test_spans_have_the_lengths_that_were_asked_for():
    starts = tf.ones((5000, 60), tf.bool)
    keys = tf.range(5000, dtype=tf.int64)
    begins = span_starts(starts, starts, MACBERT, tf.cast(keys, tf.uint32)).numpy()
    lengths = np.concatenate([np.diff(np.flatnonzero(row)) for row in begins[:, :60]])
    first = np.array([np.diff(np.flatnonzero(row))[0] for row in begins])
    for length, share in enumerate(MACBERT, start=1):
        assert within_3_sigma((first == length).sum(), len(first), share)
        assert abs((lengths == length).mean() - share) < 0.01  # the row's end cuts a long one more often


def test_spans_do_not_reach_over_special_tokens():
    features = sequences(3000)
    masked = mask(features, span_lengths=(0, 0, 0, 1.0), rate=0.3)
    taken = np.zeros(features["token_ids"].shape, int)
    for row in range(3000):
        taken[row, masked["masked_positions"][row][masked["weights"][row] == 1]] = 1
    words = [len(set(features["word_ids"][row][taken[row] == 1])) for row in range(3000)]
    assert np.mean(words) > 2
    assert set(np.unique(features["token_ids"][taken == 1])) & {PAD, UNK, CLS, SEP, MASK} == set()


@pytest.mark.parametrize("batch_size", [1, 64])
def test_same_masks_for_any_batch_and_padding(batch_size):
    features = sequences(100)
    whole = mask(features, epoch=3, span_lengths=MACBERT)
    data = tf.data.Dataset.from_tensor_slices(features).batch(batch_size)
    data = data.map(
        lambda batch: mask_words(batch, maskable=MASKABLE, mask_id=MASK, max_predictions=12, seed=7, epoch=3,
                                 span_lengths=MACBERT), num_parallel_calls=4)  # fmt: skip
    batches = list(data.as_numpy_iterator())
    longer = {n: np.pad(v, [(0, 0), (0, 9)]) if v.ndim == 2 else v for n, v in features.items()}
    longer["word_ids"][:, 64:] = -1
    longer = mask(longer, epoch=3, span_lengths=MACBERT)
    for name, value in whole.items():
        np.testing.assert_array_equal(np.concatenate([batch[name] for batch in batches]), value)
        np.testing.assert_array_equal(longer[name][:, : value.shape[-1]] if value.ndim == 2 else longer[name], value)
    assert (mask(features, epoch=4)["token_ids"] != whole["token_ids"]).any(axis=1).mean() > 0.9


def test_one_word_is_masked_even_when_long_and_never_above_the_cap():
    rows = [[CLS, 10, 96, 97, SEP], [CLS, 10, SEP], [CLS, 10, 96, UNK, SEP], [CLS, SEP]]
    token_ids = np.array([row + [PAD] * (6 - len(row)) for row in rows], np.int32)
    features = {"token_ids": token_ids, "padding_mask": (token_ids > 0).astype(np.int32), "example_index": np.arange(4)}
    features = number_words(features, GOES_ON)
    assert mask(features)["weights"].sum(axis=1).tolist() == [3, 1, 2, 0]
    assert mask(features, max_predictions=2)["weights"].sum(axis=1).tolist() == [0, 1, 2, 0]
    features["word_ids"] = tf.constant([[-1, 1, 1, 1, -1, -1]] * 4)
    assert mask(features)["weights"].sum(axis=1).tolist() == [3, 0, 0, 0]  # a word with [UNK] in it is let alone


def test_tables():
    assert GOES_ON.sum() == 40  # "##" by itself is a word
    starts = word_starts(tf.constant([[-1, 0, 0, 1, -1, -1]])).numpy()
    assert starts.tolist() == [[True, True, False, True, True, False]]


def test_bad_arguments():
    features = sequences(2)
    for shares in ((), (0.5, 0.4), (1.5, -0.5)):
        with pytest.raises(ValueError, match=r"^`span_lengths` must be shares of 1, 2, \.\.\. words that sum to 1"):
            mask(features, span_lengths=shares)
    with pytest.raises(ValueError, match=r"^`rate` must be between 0 and 1, got 0\.$"):
        mask(features, rate=0)
    del features["word_ids"]
    with pytest.raises(ValueError, match=r"^Masking needs the features \['word_ids'\], got \["):
        mask(features)
