import math

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.training.masking import mask_tokens, maskable_table
from tests.training import hash_twin

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
VOCAB = (*SPECIAL, "[unused0]", "[unused17]", *(f"word{i}" for i in range(193)), "[unusedx]")
PAD, UNK, CLS, SEP, MASK = range(5)
MASKABLE = maskable_table(VOCAB, range(5))
FORBIDDEN = np.flatnonzero(~MASKABLE)


def sequences(count, length=48, seed=0):
    """Random sequences with every special token in odd places; lengths from 0 words up."""
    rng = np.random.default_rng(seed)
    token_ids = rng.integers(5, len(VOCAB), (count, length)).astype(np.int32)
    token_ids[rng.random((count, length)) < 0.03] = UNK
    token_ids[rng.random((count, length)) < 0.01] = MASK
    token_ids[:, 0] = CLS
    ends = rng.integers(1, length, count)
    padding_mask = (np.arange(length) <= ends[:, None]).astype(np.int32)
    token_ids[np.arange(count), ends] = SEP
    token_ids[np.arange(count), ends // 2] = np.where(ends > 1, SEP, CLS)
    token_ids[padding_mask == 0] = PAD
    return {"token_ids": token_ids, "padding_mask": padding_mask, "example_index": np.arange(count, dtype=np.int64)}


def mask(features, seed=7, epoch=0, max_predictions=8, **options):
    masked = mask_tokens(
        features,
        maskable=MASKABLE,
        mask_id=MASK,
        max_predictions=max_predictions,
        seed=seed,
        epoch=epoch,
        **options,
    )
    return {name: np.asarray(value) for name, value in masked.items()}


def within_3_sigma(count, total, probability):
    return abs(count - total * probability) <= 3 * math.sqrt(total * probability * (1 - probability))


def test_ten_thousand_sequences_are_15_percent_and_80_10_10():  # P55
    features = sequences(10_000)
    masked = mask(features)
    before, after = features["token_ids"], masked["token_ids"]
    maskable = MASKABLE[before] & (features["padding_mask"] == 1)  # (B, T)
    chosen = masked["weights"] == 1  # (B, P)

    per_sequence = maskable.sum(axis=1)
    expected = [min(max(round(0.15 * n), 1), 8, n) for n in per_sequence.tolist()]
    assert chosen.sum(axis=1).tolist() == expected
    long = per_sequence >= 10  # one of three words is a third of them, by rule
    assert within_3_sigma(chosen[long].sum(), maskable[long].sum(), 0.15)

    rows, _ = np.nonzero(chosen)
    columns = masked["masked_positions"][chosen]
    assert len(set(zip(rows.tolist(), columns.tolist(), strict=True))) == len(rows)  # no position twice
    old, new = before[rows, columns], after[rows, columns]
    np.testing.assert_array_equal(masked["labels"][chosen], old)
    assert maskable[rows, columns].all()
    assert not np.isin(old, FORBIDDEN).any()
    untouched = np.ones_like(before, bool)
    untouched[rows, columns] = False
    np.testing.assert_array_equal(before[untouched], after[untouched])

    total = len(rows)
    words = MASKABLE.sum()
    is_mask, is_other = new == MASK, (new != MASK) & (new != old)
    assert within_3_sigma(is_mask.sum(), total, 0.8)
    assert within_3_sigma(is_other.sum(), total, 0.1 * (1 - 1 / words))  # a random token may be the old one
    assert within_3_sigma((new == old).sum(), total, 0.1 + 0.1 / words)
    assert not np.isin(new[is_other], FORBIDDEN).any()
    drawn = np.bincount(new[is_other], minlength=len(VOCAB))[MASKABLE]
    chi_square = ((drawn - drawn.mean()) ** 2 / drawn.mean()).sum()
    assert abs(chi_square - (words - 1)) < 5 * math.sqrt(2 * (words - 1))  # every word is drawn alike

    unused = ~chosen
    for name in ("masked_positions", "labels"):
        assert (masked[name][unused] == 0).all()
    assert set(np.unique(masked["weights"])) == {0.0, 1.0}


def test_every_position_is_chosen_alike():
    count, length = 20_000, 22
    token_ids = np.full((count, length), 50, np.int32)
    features = {"token_ids": token_ids, "padding_mask": np.ones_like(token_ids), "example_index": np.arange(count)}
    masked = mask(features, max_predictions=3)
    drawn = np.bincount(masked["masked_positions"].ravel(), minlength=length)
    expected = count * 3 / length
    assert (abs(drawn - expected) < 5 * math.sqrt(expected)).all()


def test_equals_plain_python():
    features = sequences(60)
    masked = mask(features, seed=11, epoch=4)
    for row in range(60):
        ids = features["token_ids"][row].tolist()
        keys = [
            hash_twin.stream(hash_twin.example_key(11, 4, row), f"mask/{name}")
            for name in ("choice", "action", "replacement")
        ]
        scores = {p: int(hash_twin.draw(keys[0], p)) >> 1 for p, token in enumerate(ids) if MASKABLE[token]}
        count = min(max(round(0.15 * len(scores)), 1), 8, len(scores))
        positions = sorted(scores, key=lambda p: (-scores[p], p))[:count]
        for p in positions:
            action = int(hash_twin.draw(keys[1], p)) / 2**32
            drawn = np.flatnonzero(MASKABLE)[int(hash_twin.below(hash_twin.draw(keys[2], p), MASKABLE.sum()))]
            ids[p] = MASK if action < 0.8 else int(drawn) if action < 0.9 else ids[p]
        assert masked["masked_positions"][row, :count].tolist() == positions
        assert masked["token_ids"][row].tolist() == ids


@pytest.mark.parametrize("batch_size", [1, 7, 64])
@pytest.mark.parametrize("parallel_calls", [1, 4])
def test_same_masks_for_any_batch_size_and_parallelism(batch_size, parallel_calls):  # P56
    features = sequences(200)
    whole = mask(features, epoch=3)
    data = tf.data.Dataset.from_tensor_slices(features).batch(batch_size)
    data = data.map(
        lambda batch: mask_tokens(batch, maskable=MASKABLE, mask_id=MASK, max_predictions=8, seed=7, epoch=3),
        num_parallel_calls=parallel_calls,
    )
    batches = list(data.as_numpy_iterator())
    for name in whole:
        np.testing.assert_array_equal(np.concatenate([batch[name] for batch in batches]), whole[name])


def test_same_masks_in_any_order_and_company():
    features = sequences(100)
    order = np.random.default_rng(3).permutation(100)[:40]
    whole, some = mask(features), mask({name: value[order] for name, value in features.items()})
    for name in whole:
        np.testing.assert_array_equal(some[name], whole[name][order])


def test_padding_to_another_length_changes_nothing():
    features = sequences(100)
    longer = {n: np.pad(v, [(0, 0), (0, 9)]) if v.ndim == 2 else v for n, v in features.items()}
    for name, value in mask(features).items():
        np.testing.assert_array_equal(mask(longer)[name][:, : value.shape[-1]] if value.ndim == 2 else value, value)


def test_other_masks_in_the_next_epoch_and_for_another_seed():  # P56
    features = sequences(500)
    first, again, epoch, seed = mask(features), mask(features), mask(features, epoch=1), mask(features, seed=8)
    np.testing.assert_array_equal(first["token_ids"], again["token_ids"])
    for other in (epoch, seed):
        same = (first["masked_positions"] == other["masked_positions"])[first["weights"] == 1]
        assert same.mean() < 0.15


def test_epoch_may_differ_within_a_batch():
    features = sequences(50)
    both = mask(features, epoch=np.arange(50) % 2)
    even, odd = mask(features, epoch=0), mask(features, epoch=1)
    np.testing.assert_array_equal(both["token_ids"][::2], even["token_ids"][::2])
    np.testing.assert_array_equal(both["token_ids"][1::2], odd["token_ids"][1::2])


@pytest.mark.parametrize("static", [True, False])
def test_short_and_empty_sequences(static):
    token_ids = np.array([[CLS, SEP, PAD, PAD], [CLS, 30, SEP, PAD], [PAD] * 4], np.int32)
    features = {"token_ids": token_ids, "padding_mask": (token_ids > 0).astype(np.int32), "example_index": np.arange(3)}
    if static:
        masked = mask(features, max_predictions=6)
    else:
        signature = [{name: tf.TensorSpec([None] * v.ndim, v.dtype) for name, v in features.items()}]
        masked = tf.function(lambda x: mask_tokens(x, maskable=MASKABLE, mask_id=MASK, max_predictions=6, seed=7,
                                                   epoch=0), input_signature=signature)(features)  # fmt: skip
        masked = {name: value.numpy() for name, value in masked.items()}
    assert masked["weights"].sum(axis=1).tolist() == [0, 1, 0]  # one word still gets its mask
    assert masked["masked_positions"].shape == (3, 6)
    assert (masked["masked_positions"][1, 0], masked["labels"][1, 0]) == (1, 30)
    np.testing.assert_array_equal(masked["token_ids"][[0, 2]], token_ids[[0, 2]])


def test_other_features_pass_through():
    features = {**sequences(3), "segment_ids": np.ones((3, 48), np.int32)}
    assert mask(features)["segment_ids"].sum() == 3 * 48


def test_maskable_table():
    assert MASKABLE.sum() == 194
    assert not MASKABLE[:7].any()
    assert MASKABLE[VOCAB.index("[unusedx]")]


def test_bad_arguments():
    features = sequences(2)
    with pytest.raises(ValueError, match=r"^`rate` must be between 0 and 1, got 1.5\.$"):
        mask(features, rate=1.5)
    with pytest.raises(ValueError, match=r"^`max_predictions` must be at least 1, got 0\.$"):
        mask(features, max_predictions=0)
    del features["example_index"]
    with pytest.raises(ValueError, match=r"^Masking needs the features \['example_index'\], got \["):
        mask(features)
    with pytest.raises(ValueError, match=r"^The vocabulary must hold a token that can be masked, got 5 tokens, none"):
        maskable_table(SPECIAL, range(5))
