import functools

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.training.pairs import tokenize_documents
from keras_bert.training.pretraining_batches import pretraining_batches
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
