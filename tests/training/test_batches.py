import itertools
import random

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.tokenization import Tokenizer
from keras_bert.training.batches import (
    bucket_widths,
    evaluation_batches,
    steps_per_epoch,
    tokenize_examples,
    training_batches,
)

WORDS = ["red", "green", "blue", "##ish", "stone", "sand", "sea"]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])


def texts_of(count, longest, seed=0):
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS[:3] + WORDS[4:], k=draw.randint(0, longest))) for _ in range(count)]


def arrays(data):
    return [({name: value.numpy() for name, value in x.items()}, y.numpy()) for x, y in data]


@pytest.mark.parametrize("paired", [False, True])
def test_rows_are_what_the_tokenizer_makes(tokenizer, paired):
    texts, pairs = texts_of(53, 20), texts_of(53, 9, seed=1) if paired else None
    examples = tokenize_examples(texts, pairs, tokenizer, 16)
    seen = {}
    for features, numbers in arrays(evaluation_batches(examples, range(53), batch_size=8)):
        for row, number in enumerate(numbers):
            seen[int(number)] = {name: value[row] for name, value in features.items()}
    assert sorted(seen) == list(range(53))
    for number in seen:
        pair = [pairs[number]] if paired else None
        expected = tokenizer([texts[number]], pair, max_length=16)
        for name, value in expected.items():
            length = value.shape[1]
            np.testing.assert_array_equal(seen[number][name][:length], value[0])
            assert not seen[number][name][length:].any()


def test_every_example_once_an_epoch_in_few_shapes(tokenizer):
    examples = tokenize_examples(texts_of(203, 60), None, tokenizer, 64)
    batches = arrays(training_batches(examples, range(203), batch_size=16, seed=3, epochs=4))
    steps = steps_per_epoch(examples, 16)
    assert (steps, len(batches)) == (13, 52)
    groups = set()
    for epoch in range(4):
        members = [y for _, y in batches[epoch * steps : (epoch + 1) * steps]]
        assert sorted(np.concatenate(members)) == list(range(203))
        groups.update(frozenset(y.tolist()) for y in members)
    assert len(groups) == 4 * steps  # each epoch puts others together, and not only in another order
    traces = []

    @tf.function
    def step(token_ids):
        traces.append(token_ids.shape)
        return token_ids

    for features, labels in batches[:50]:  # P68: 50 batches in 4 buckets
        if len(labels) == 16:
            step(tf.constant(features["token_ids"]))
    assert len(traces) <= 4
    assert sum(len(labels) < 16 for _, labels in batches) == 4  # one an epoch
    padded = sum(features["padding_mask"].size for features, _ in batches)
    real = sum(features["padding_mask"].sum() for features, _ in batches)
    assert padded < 1.3 * real  # measured 1.18; padding all to 62 would be 1.9


def test_batches_are_a_function_of_seed_and_epoch(tokenizer):
    examples = tokenize_examples(texts_of(45, 30), None, tokenizer, 32)
    make = {"batch_size": 8, "epochs": 3}
    first, again = (arrays(training_batches(examples, range(45), seed=5, **make)) for _ in range(2))
    other = arrays(training_batches(examples, range(45), seed=6, **make))
    resumed = arrays(training_batches(examples, range(45), seed=5, start=8, **make))

    def numbers(batches):
        return [y.tolist() for _, y in batches]

    assert numbers(first) == numbers(again) != numbers(other)
    assert numbers(resumed) == numbers(first)[8:]
    assert arrays(training_batches(examples, range(45), seed=5, start=18, **make)) == []


def test_lengths_mix_within_an_epoch(tokenizer):
    examples = tokenize_examples(texts_of(400, 60), None, tokenizer, 64)
    batches = arrays(training_batches(examples, range(400), batch_size=8, seed=0, epochs=1))
    widths = [features["token_ids"].shape[1] for features, _ in batches]
    assert len(set(widths[:12])) >= 3
    assert widths != sorted(widths)


def test_fit_sees_whole_epochs(tokenizer, tmp_path):
    import keras

    examples = tokenize_examples(texts_of(21, 6), None, tokenizer, 8)
    data = training_batches(examples, [0, 1, 1] * 7, batch_size=4, seed=0, epochs=3)
    ids = keras.Input((None,), dtype="int32", name="token_ids")
    logits = keras.layers.Dense(2)(keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(12, 3)(ids)))
    model = keras.Model({"token_ids": ids}, logits)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    seen = []

    class Count(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(batch)

    data = data.map(lambda x, y: ({"token_ids": x["token_ids"]}, y))
    model.fit(data, epochs=3, steps_per_epoch=6, callbacks=[Count()], shuffle=False, verbose=0)
    assert seen == [*range(6)] * 3


def test_widths_leave_the_least_padding():
    def size(tokens, widths):
        return int(sum(np.asarray(widths)[np.searchsorted(widths, tokens)]))

    rng = np.random.default_rng(0)
    for longest in (9, 30, 61):
        tokens = rng.integers(2, longest + 1, 50)
        candidates = [*range(8, int(tokens.max()), 8), int(tokens.max())]
        subsets = (c for k in range(4) for c in itertools.combinations(candidates[:-1], k))
        least = min(size(tokens, [*chosen, candidates[-1]]) for chosen in subsets)
        widths = bucket_widths(tokens)
        assert len(widths) <= 4
        assert widths[-1] == tokens.max()
        assert all(width % 8 == 0 for width in widths[:-1])
        assert size(tokens, widths) == least
    assert bucket_widths(np.array([12, 12, 12])) == [12]
    assert bucket_widths(np.array([2])) == [2]


def test_only_empty_texts(tokenizer):
    examples = tokenize_examples(["", ""], ["", ""], tokenizer, 8)
    ((features, labels),) = arrays(evaluation_batches(examples, [0, 1], batch_size=8))
    assert features["token_ids"].tolist() == [[2, 3, 3]] * 2
    assert labels.tolist() == [0, 1]


def test_too_short_a_limit(tokenizer):
    with pytest.raises(ValueError, match=r"^`max_length` must be over 3, for the special tokens and a word, got 3\.$"):
        tokenize_examples(["red"], ["sea"], tokenizer, 3)
