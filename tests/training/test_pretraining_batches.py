import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.training.checkpoints import Checkpoints
from keras_bert.training.pairs import tokenize_documents
from keras_bert.training.pretraining_batches import pretraining_batches, pretraining_pipeline
from tests.training.toy import numbered_documents, tokenizer_for

DOCUMENTS = numbered_documents((9, 1, 30, 2, 17, 1, 41))
TOKENIZER = tokenizer_for(DOCUMENTS)
TOKENIZED = tokenize_documents(DOCUMENTS, TOKENIZER)


@functools.cache
def batches(**options):
    options = {
        "max_length": 40,
        "batch_size": 8,
        "max_predictions": 6,
        "seed": 5,
        "steps": 12,
        "parallel_calls": 1,
        **options,
    }
    return list(pretraining_batches(TOKENIZED, TOKENIZER, **options).as_numpy_iterator())


def examples(found):
    """The examples of all batches, one after the other."""
    return [np.concatenate(parts) for parts in zip(*(tf.nest.flatten(batch) for batch in found), strict=True)]


def assert_equal(left, right):
    for a, b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b)


def test_shapes_and_names():
    x, y, weights = batches()[0]
    assert {name: (value.shape, value.dtype.name) for name, value in x.items()} == {
        "token_ids": ((8, 40), "int32"),
        "segment_ids": ((8, 40), "int32"),
        "padding_mask": ((8, 40), "int32"),
        "masked_positions": ((8, 6), "int32"),
    }
    assert (y["mlm_logits"].shape, y["nsp_logits"].shape) == ((8, 6), (8,))
    assert (weights["mlm_logits"].shape, weights["nsp_logits"].tolist()) == ((8, 6), [1] * 8)


@pytest.mark.parametrize(("batch_size", "steps", "parallel_calls"), [(8, 12, 4), (3, 32, 1), (32, 3, 4)])
def test_same_examples_for_any_batch_size_and_parallelism(batch_size, steps, parallel_calls):
    other = batches(batch_size=batch_size, steps=steps, parallel_calls=parallel_calls)
    assert_equal(examples(batches()), examples(other))


@pytest.mark.parametrize(
    "options", [{"pairing": "sentence_order", "masking": "words"}, {"pairing": "full_sentences", "masking": "spans"}]
)
def test_pairings_and_maskings(options):
    options = {"rate": 0.3, "short_probability": 0.1, "max_predictions": 12, **options}
    found = batches(**options)
    assert_equal(examples(found), examples(batches(batch_size=16, steps=6, parallel_calls=4, **options)))
    x, y, _ = found[0]
    assert x["masked_positions"].shape == (8, 12)
    labels = y if options["pairing"] == "full_sentences" else y["mlm_logits"]
    assert labels.shape == (8, 12)
    masked = [(x["token_ids"] == TOKENIZER.mask_id).sum() for x, _, _ in found]
    real = [(x["token_ids"] > 3).sum() for x, _, _ in found]
    assert 0.15 < sum(masked) / sum(real) < 0.3  # 80% of 30% or, of short rows, a little more or less


def test_bad_choices():
    with pytest.raises(ValueError, match=r"^`pairing` must be one of next_sentence, sentence_order, full_sentences"):
        batches(pairing="none")
    with pytest.raises(ValueError, match=r"^`masking` must be one of tokens, words, spans, got 'word'\.$"):
        batches(masking="word")


def test_a_resumed_run_sees_the_rest():
    assert_equal(examples(batches()[7:]), examples(batches(start=7)))


@pytest.mark.parametrize("row_sequences", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_a_stopped_fit_goes_on_with_the_very_batches_that_follow(tmp_path, row_sequences):  # P56
    """Killed between two checkpoints: batches from the saved place, and the weights at the end, to the last bit."""
    steps = 25  # of a little more than an epoch, or two of packed rows
    options = {"max_length": 40, "batch_size": 8, "max_predictions": 6, "seed": 5, "row_sequences": row_sequences}

    def started():
        x = keras.Input((None,), dtype="int32")
        model = keras.Model(x, keras.layers.Dense(1, name="d")(keras.layers.Embedding(len(TOKENIZER.vocab), 3)(x)))
        for weight in model.weights:
            weight.assign(np.random.default_rng(0).normal(size=weight.shape))
        model.compile(keras.optimizers.Adam(1e-2), "mse")
        pipeline = pretraining_pipeline(TOKENIZED, TOKENIZER, **options)
        return model, pipeline, Checkpoints(tmp_path, every=4, place=pipeline.place)

    def fit(model, batches, *callbacks):
        data = batches.map(lambda x, y, w: (x["token_ids"], tf.cast(x["token_ids"] % 7, tf.float32)[..., None]))
        model.fit(data, shuffle=False, verbose=0, callbacks=callbacks)

    def kill(batch, logs):
        if batch == 9:
            raise InterruptedError

    straight, pipeline, _ = started()
    whole = list(pipeline.batches(steps).as_numpy_iterator())
    assert pipeline.steps() < steps
    fit(straight, pipeline.batches(steps))
    model, pipeline, checkpoints = started()
    with pytest.raises(InterruptedError):
        fit(model, pipeline.batches(steps), checkpoints, keras.callbacks.LambdaCallback(on_train_batch_end=kill))
    model, pipeline, checkpoints = started()
    assert checkpoints.resume(model) == 8
    assert checkpoints.restored["step"] == 8
    rest = list(pipeline.batches(steps, checkpoints.restored).as_numpy_iterator())
    assert len(rest) == steps - 8
    for one, other in zip(rest, whole[8:], strict=True):
        keras.tree.map_structure(np.testing.assert_array_equal, one, other)
    fit(model, pipeline.batches(steps, checkpoints.restored), checkpoints)
    assert checkpoints.step == steps
    for one, other in zip(model.get_weights(), straight.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_one_epoch_holds_every_example_once_and_the_next_differs():
    one = batches(steps=None)
    count = sum(len(x["token_ids"]) for x, _, _ in one)
    assert count % 8  # so the last batch is smaller
    both = examples(batches(batch_size=count, steps=2))
    assert_equal(examples(one), [value[:count] for value in both])
    token_ids = both[3]  # flattened dicts are in the order of their keys
    first, second = ({row.tobytes() for row in part} for part in (token_ids[:count], token_ids[count:]))
    assert len(first) == count
    assert not first & second
