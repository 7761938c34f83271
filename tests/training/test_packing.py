"""Packed pretraining rows against the same examples in rows of their own, and where a run is among them."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.training import packing, pipeline
from keras_bert.training.packing import plan_rows, row_layout
from keras_bert.training.pairs import tokenize_documents
from keras_bert.training.pretraining_batches import pretraining_batches, pretraining_pipeline
from tests.training.toy import numbered_documents, tokenizer_for

DOCUMENTS = numbered_documents((9, 1, 30, 2, 17, 1, 41, 3, 3, 2))
TOKENIZER = tokenizer_for(DOCUMENTS)
TOKENIZED = tokenize_documents(DOCUMENTS, TOKENIZER)
T, S, P, B = 40, 3, 6, 4
OPTIONS = {
    "max_length": T, "batch_size": B, "max_predictions": P, "seed": 5, "short_probability": 0.5, "row_sequences": S,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch):
    for module in (packing, pipeline):
        monkeypatch.setattr(module, "WINDOW", 32)


def best_fit(lengths, row_length, slots):
    """Best fit, longest first, one by one."""
    rows = []
    for number in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        free = [row_length - sum(lengths[i] for i in row) for row in rows]
        fitting = [i for i, row in enumerate(rows) if free[i] >= lengths[number] and len(row) < slots]
        if fitting:
            rows[min(fitting, key=lambda i: free[i])].append(number)
        else:
            rows.append([number])
    return rows


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("row_length", "slots"), [(40, 3), (40, 40), (7, 2)])
def test_plan_is_best_fit(seed, row_length, slots):
    lengths = np.random.default_rng(seed).integers(1, row_length + 1, 60)
    found = plan_rows(tf.constant(lengths, tf.int32), row_length, slots).numpy()
    assert [[i for i in row if i >= 0] for row in found.tolist()] == best_fit(lengths.tolist(), row_length, slots)
    assert (np.sort(found[found >= 0]) == np.arange(60)).all()
    for row in found:
        assert (row[np.sum(row >= 0) :] == -1).all()


def test_row_layout():
    source, layout = row_layout(tf.constant([[10, 30, 0], [50, 0, 0]]), tf.constant([[2, 3, 0], [1, 0, 0]]), 6)
    assert source.numpy().tolist() == [[10, 11, 30, 31, 32, 0], [50, 0, 0, 0, 0, 0]]
    assert layout["sequence_ids"].numpy().tolist() == [[1, 1, 2, 2, 2, 0], [1, 0, 0, 0, 0, 0]]
    assert layout["sequence_starts"].numpy().tolist() == [[0, 2, 0], [0, 0, 0]]


def sequences(batches):
    """The sequences of packed batches, in order: ids, segments, {position: (label, weight)}, NSP label."""
    for x, y, weights in batches:
        words, pairs = (y["mlm_logits"], y["nsp_logits"]) if isinstance(y, dict) else (y, None)
        word_weights = weights["mlm_logits"] if isinstance(weights, dict) else weights
        for row, ids in enumerate(x["sequence_ids"]):
            used = ids.max()
            if pairs is not None:
                assert weights["nsp_logits"][row].tolist() == [1] * used + [0] * (S - used)
            masked = {
                int(p): int(w) for p, w, v in zip(x["masked_positions"][row], words[row], word_weights[row]) if v  # noqa: B905
            }
            for slot in range(used):
                place = np.flatnonzero(ids == slot + 1)
                start = place[0]
                assert (np.diff(place) == 1).all()
                own = tuple(sorted((p - start, word) for p, word in masked.items() if p in place))
                label = None
                if pairs is not None:
                    assert x["sequence_starts"][row, slot] == start
                    label = int(pairs[row, slot])
                yield tuple(x["token_ids"][row, place]), tuple(x["segment_ids"][row, place]), own, label
            assert (x["token_ids"][row, ids == 0] == TOKENIZER.pad_id).all()


def apart(batches):
    """The same of batches that are not packed."""
    for x, y, weights in batches:
        words, pairs = (y["mlm_logits"], y["nsp_logits"]) if isinstance(y, dict) else (y, None)
        word_weights = weights["mlm_logits"] if isinstance(weights, dict) else weights
        for row, mask in enumerate(x["padding_mask"]):
            used = word_weights[row] > 0
            own = tuple(sorted(zip(x["masked_positions"][row, used].tolist(), words[row, used].tolist(), strict=True)))
            parts = (tuple(x[name][row, : mask.sum()]) for name in ("token_ids", "segment_ids"))
            yield *parts, own, None if pairs is None else int(pairs[row])


def batches(**options):
    options = {**OPTIONS, **options}
    return list(pretraining_batches(TOKENIZED, TOKENIZER, **options).as_numpy_iterator())


@pytest.mark.parametrize(
    "options", [{}, pytest.param({"pairing": "single_documents", "masking": "spans"}, marks=pytest.mark.slow)]
)
def test_packed_rows_hold_each_example_of_an_epoch_once(options):
    packed, alone = batches(**options), batches(row_sequences=1, **options)
    found, expected = sorted(sequences(packed)), sorted(apart(alone))
    assert found == expected
    rows, examples = (sum(len(x["token_ids"]) for x, *_ in found) for found in (packed, alone))
    assert rows < 0.9 * examples
    x = packed[0][0]
    assert x["token_ids"].shape == (B, T)
    assert x["masked_positions"].shape == (B, P + S)
    assert ("sequence_starts" in x) == (options.get("pairing") != "single_documents")
    assert {value.dtype.name for value in x.values()} == {"int32"}


def assert_equal(left, right):
    left, right = list(left), list(right)
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        for a, b in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("packed", [S, pytest.param(1, marks=pytest.mark.slow)])
def test_a_run_resumed_at_any_step_sees_the_next_hundred_batches(packed):
    found = pretraining_pipeline(TOKENIZED, TOKENIZER, **{**OPTIONS, "row_sequences": packed})
    whole = list(found.batches(140).as_numpy_iterator())
    assert len(whole) == 140
    step = int(np.random.default_rng().integers(1, 40))
    place = json.loads(json.dumps(found.place(step)))
    assert place["epoch"] == (step * B // found.examples if packed == 1 else place["window"] * 32 // found.examples)
    assert_equal(whole[step : step + 100], found.batches(step + 100, place, parallel_calls=2).as_numpy_iterator())
    again = pretraining_pipeline(TOKENIZED, TOKENIZER, **{**OPTIONS, "row_sequences": packed})
    assert found.place(step + 30) == again.place(step + 30)  # counted from the last place, and from the beginning
    assert found.place(step) == place
    if packed > 1:
        assert found.place(100)["window"] > 3
        # not in the order of the plan, longest first, where the first rows of a window hold one sequence
        alone = [ids.max() == 1 for x, *_ in whole for ids in x["sequence_ids"]]
        assert 0.2 < np.mean(alone[:4] + alone[20:24] + alone[40:44]) < 0.9


@pytest.mark.parametrize(("packed", "workers"), [pytest.param(S, 2, marks=pytest.mark.slow), (1, 3)])
def test_workers_share_every_batch(packed, workers):
    found = pretraining_pipeline(TOKENIZED, TOKENIZER, **{**OPTIONS, "batch_size": 7, "row_sequences": packed})
    whole = list(found.batches().as_numpy_iterator())
    parts = [found.batches(shard=(index, workers)).as_numpy_iterator() for index in range(workers)]
    joined = (tf.nest.map_structure(lambda *values: np.concatenate(values), *own) for own in zip(*parts, strict=True))
    assert_equal(whole, joined)
    assert len(whole[-1][0]["token_ids"]) < 7  # the last one is shared too


def test_what_does_not_fit_is_refused():
    found = pretraining_pipeline(TOKENIZED, TOKENIZER, **OPTIONS)
    place = found.place(3)
    other = pretraining_pipeline(TOKENIZED, TOKENIZER, **{**OPTIONS, "seed": 6})
    with pytest.raises(ValueError, match=r"^The place must be one in these batches, got one in others\. Go on"):
        other.batches(start=place)
    fewer = tokenize_documents(DOCUMENTS[:-1], TOKENIZER)
    assert pretraining_pipeline(fewer, TOKENIZER, **OPTIONS).identity != found.identity
    with pytest.raises(ValueError, match=r"^`shard` must be \(index, count\) with 0 <= index < count, got \(2, 2\)\.$"):
        found.batches(shard=(2, 2))
    large = dataclasses.replace(found, nbytes=2_500_000_000)
    with pytest.raises(ValueError, match=r"^A tf\.data service takes corpora of 2 GB, got 2\.5 GB in memory\. Make"):
        large.batches(service="grpc://localhost:1")
    with pytest.raises(ValueError, match=r"^`row_sequences` must be at least 1, got 0\.$"):
        batches(row_sequences=0)
    with pytest.raises(ValueError, match=r"^`max_predictions` must be at least 6 for packed rows, got 5\.$"):
        batches(max_predictions=5)
