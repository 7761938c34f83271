import numpy as np
import tensorflow as tf

from keras_bert.training.masking import ELECTRA_SHARES, mask_tokens
from keras_bert.training.replaced_tokens import draw_tokens, replaced_tokens

B, T, P, V = 6, 12, 4, 9
MASK = 3
MASKABLE = np.arange(V) > 3


def generator_input():
    rng = np.random.default_rng(1)
    features = {
        "token_ids": tf.constant(rng.integers(4, V, (B, T)), tf.int32),
        "padding_mask": tf.ones([B, T], tf.int32),
        "example_index": tf.range(B, dtype=tf.int64),
    }
    masked = mask_tokens(
        features, maskable=MASKABLE, mask_id=MASK, max_predictions=P, seed=0, epoch=0, rate=0.2, shares=ELECTRA_SHARES
    )
    return features["token_ids"].numpy(), masked, tf.constant(rng.normal(0, 1, (B, P, V)), tf.float32)


def run(masked, logits, seed=0, **options):
    parts = [masked[name] for name in ("token_ids", "masked_positions", "labels", "weights")]
    return [value.numpy() for value in replaced_tokens(*parts, logits, seed=seed, **options)]


def test_only_masked_places_change_and_labels_say_where():
    original, masked, logits = generator_input()
    ids, labels = run(masked, logits)
    assert ids.dtype == labels.dtype == np.int32
    np.testing.assert_array_equal(labels, ids != original)
    chosen = np.zeros((B, T), bool)
    slots = zip(masked["masked_positions"].numpy(), masked["weights"].numpy(), strict=True)
    for row, (places, weights) in enumerate(slots):
        chosen[row, places[weights > 0]] = True
    assert chosen.sum() == B * 2
    np.testing.assert_array_equal(ids[~chosen], original[~chosen])
    labels = [run(masked, logits, seed=seed)[1] for seed in range(5)]
    assert 0 < np.sum(labels) < 5 * chosen.sum()  # the generator drew some of the text's own tokens too


def test_a_perfect_generator_gives_the_text_back():
    original, masked, _ = generator_input()
    ids, labels = run(masked, 100 * tf.one_hot(masked["labels"], V))
    np.testing.assert_array_equal(ids, original)
    assert labels.sum() == 0


def test_drawn_as_the_softmax_says_and_never_what_is_barred():
    logits = tf.constant([0.0, 1.0, -1.0, 2.0, 0.5])
    bits = tf.constant(np.random.default_rng(0).integers(0, 2**32, (1, 40_000)), tf.uint32)
    drawn = draw_tokens(tf.broadcast_to(logits, [1, 40_000, 5]), bits).numpy()
    expected = 40_000 * tf.nn.softmax(logits).numpy()
    assert (np.abs(np.bincount(drawn[0], minlength=5) - expected) < 3 * np.sqrt(expected)).all()
    ends = tf.constant([[0, 2**32 - 1]], tf.uint32)
    assert draw_tokens(tf.fill([1, 2, 30_000], 0.1), ends).numpy().tolist() == [[0, 29_999]]
    _, masked, logits = generator_input()
    ids = np.stack([run(masked, logits, seed=seed, allowed=np.arange(V) == 7)[0] for seed in range(20)])
    assert MASK not in ids
    used = masked["weights"].numpy() > 0
    assert set(np.take_along_axis(ids[0], masked["masked_positions"].numpy(), 1)[used]) == {7}


def test_a_function_of_seed_and_row_without_gradient():
    _, masked, logits = generator_input()
    first = run(masked, logits)[0]
    turned = run({name: value[::-1] for name, value in masked.items()}, logits[::-1])[0]
    np.testing.assert_array_equal(first, turned[::-1])  # on any replica
    assert (first != run(masked, logits, seed=1)[0]).any()
    other = {**masked, "token_ids": tf.where(masked["token_ids"] == 5, 6, masked["token_ids"])}
    drawn = [np.take_along_axis(ids, masked["masked_positions"].numpy(), 1) for ids in (first, run(other, logits)[0])]
    assert (drawn[0] != drawn[1])[masked["weights"].numpy() > 0].any()
    with tf.GradientTape() as tape:
        tape.watch(logits)
        parts = [masked[name] for name in ("token_ids", "masked_positions", "labels", "weights")]
        total = tf.reduce_sum(tf.cast(replaced_tokens(*parts, logits, seed=0)[1], tf.float32))
    assert tape.gradient(total, logits) is None


def test_the_generator_reads_mostly_masks_and_no_random_tokens():
    features = {
        "token_ids": tf.fill([400, 40], 5),
        "padding_mask": tf.ones([400, 40], tf.int32),
        "example_index": tf.range(400, dtype=tf.int64),
    }
    masked = mask_tokens(
        features, maskable=MASKABLE, mask_id=MASK, max_predictions=6, seed=0, epoch=0, shares=ELECTRA_SHARES
    )
    ids = masked["token_ids"].numpy()
    assert set(np.unique(ids)) == {MASK, 5}
    count = 400 * 6
    assert abs((ids == MASK).sum() - 0.85 * count) < 3 * np.sqrt(count * 0.85 * 0.15)
