import asyncio
import threading

import numpy as np
import pytest

from keras_bert.export.server.batching import BATCH_BYTES, Batcher, Limits, join, split
from keras_bert.export.server.refusal import Refusal

TEXTS = [b"a", b"b" * 70, b"c", b"d" * 500, b"e" * 90]


def text_inputs(texts):
    array = np.empty(len(texts), object)
    array[:] = texts
    return {"text": array}


class Echo:
    """A model that gives texts back, and keeps what went through it together; it waits while `gate` is closed."""

    def __init__(self):
        self.batches = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, inputs):
        self.gate.wait(20)
        texts = inputs["text"].tolist()
        self.batches.append(texts)
        if b"bad" in texts:
            raise Refusal(400, "A bad text.")
        if b"crash" in texts:
            raise RuntimeError("a secret")
        return {"text": inputs["text"], "rows": np.full(len(texts), len(texts))}


def answers(limits, model, *requests):
    """What each request is answered, asked at the same time."""

    async def run():
        batcher = Batcher(limits)
        try:
            found = await asyncio.gather(
                *(batcher.ask(model, text_inputs(texts)) for texts in requests), return_exceptions=True
            )
            assert batcher.rows == 0
            return found
        finally:
            batcher.close()

    return asyncio.run(run())


def test_rows_that_wait_together_go_together_and_each_gets_its_own():
    model = Echo()
    found = answers(Limits(max_batch_size=8, max_delay_ms=50), model, *([bytes([97 + i])] for i in range(8)))
    assert [row["text"].tolist() for row in found] == [[bytes([97 + i])] for i in range(8)]
    assert len(model.batches) == 1


def test_a_batch_has_at_most_so_many_rows_and_one_by_one_is_one():
    model = Echo()
    found = answers(Limits(max_batch_size=3, max_delay_ms=20), model, [b"a", b"b"], [b"c", b"d"], [b"e"], [b"f"])
    assert [row["text"].tolist() for row in found] == [[b"a", b"b"], [b"c", b"d"], [b"e"], [b"f"]]
    assert sorted(map(len, model.batches)) == [2, 2, 2] or max(map(len, model.batches)) == 3
    model = Echo()
    answers(Limits(max_batch_size=1), model, *[[text] for text in TEXTS])
    assert [len(batch) for batch in model.batches] == [1] * len(TEXTS)


def test_only_texts_of_similar_length_go_together():
    model = Echo()
    found = answers(Limits(max_batch_size=8, max_delay_ms=20), model, TEXTS, TEXTS[::-1])
    assert [row["text"].tolist() for row in found] == [TEXTS, TEXTS[::-1]]
    together = sorted(sorted({len(text) for text in batch}) for batch in model.batches)
    assert together == [[1], [70, 90], [500]]


def test_long_texts_go_in_small_batches_and_the_longest_alone():
    model = Echo()
    answers(Limits(max_batch_size=32, max_delay_ms=20), model, [b"s" * 90] * 40, [b"m" * 500] * 20, [b"l" * 9000] * 3)
    sizes = {letter: sorted(len(b) for b in model.batches if b[0][:1] == letter) for letter in (b"s", b"m", b"l")}
    assert sizes == {b"s": [8, 32], b"m": [4, 8, 8], b"l": [1, 1, 1]}
    assert all(len(batch) * len(batch[0]) <= BATCH_BYTES for batch in model.batches if len(batch) > 1)
    ids = {name: np.zeros((9, 256), "int32") for name in ("token_ids", "segment_ids", "padding_mask")}
    assert [len(rows) for _, rows in split(ids, 32)] == [4, 4, 1]


def test_a_rare_length_does_not_wait_for_full_batches_of_others():
    model = Echo()
    model.gate.clear()

    async def run():
        batcher = Batcher(Limits(max_batch_size=2, max_delay_ms=0))
        texts = [[b"a"], [b"long" * 200], [b"b"], [b"c"], [b"d"], [b"e"]]
        waiting = [asyncio.create_task(batcher.ask(model, text_inputs(asked))) for asked in texts]
        await asyncio.sleep(0.05)  # the first runs, all others wait
        model.gate.set()
        await asyncio.gather(*waiting)
        batcher.close()

    asyncio.run(run())
    assert model.batches == [[b"a"], [b"long" * 200], [b"b", b"c"], [b"d", b"e"]]


def test_other_shapes_and_other_models_are_not_joined():
    ids = {"token_ids": np.arange(12).reshape(4, 3)}
    assert [rows.tolist() for _, rows in split(ids, 3)] == [[0, 1, 2], [3]]
    assert {kind for kind, _ in split(ids, 3)}.isdisjoint(kind for kind, _ in split({"token_ids": np.ones((1, 4))}, 3))
    first, second = Echo(), Echo()

    async def run():
        batcher = Batcher(Limits(max_delay_ms=20))
        await asyncio.gather(*(batcher.ask(model, text_inputs([b"a"])) for model in (first, second, first)))
        batcher.close()

    asyncio.run(run())
    assert [first.batches, second.batches] == [[[b"a", b"a"]], [[b"a"]]]


def test_parts_are_put_together_with_the_padding_of_the_contract():
    parts = [
        {"start": np.array([[4, 5]]), "label": np.array([[b"x", b"y"]], object), "score": np.ones((1, 2), "float32")},
        {"start": np.array([[6]]), "label": np.array([[b"z"]], object), "score": np.ones((1, 1), "float32")},
    ]
    joined = join([np.array([1]), np.array([0])], parts, 2)
    assert joined["start"].tolist() == [[6, -1], [4, 5]]
    assert joined["label"].tolist() == [[b"z", b""], [b"x", b"y"]]
    assert joined["score"].tolist() == [[1, 0], [1, 1]]


@pytest.mark.parametrize(("text", "status", "said"), [(b"bad", 400, "A bad text."), (b"crash", 500, "The model call")])
def test_nobody_is_refused_for_a_neighbour(text, status, said):
    first, wrong, last = answers(Limits(max_delay_ms=20), Echo(), [b"a"], [text], [b"b"])
    assert first["text"].tolist() == [b"a"]
    assert last["text"].tolist() == [b"b"]
    assert (wrong.status, str(wrong)[:14]) == (status, said[:14])
    assert "secret" not in str(wrong)


def test_a_full_queue_refuses_and_a_late_answer_is_504():
    model = Echo()
    model.gate.clear()
    limits = Limits(max_batch_size=1, max_queue=2, timeout_s=0.3)

    async def run():
        batcher = Batcher(limits)
        waiting = [asyncio.create_task(batcher.ask(model, text_inputs([b"a"]))) for _ in range(3)]
        await asyncio.sleep(0.05)  # one runs, two wait
        assert batcher.rows == 2
        with pytest.raises(Refusal, match="2 rows are waiting and 2 may; try again later") as full:
            await batcher.ask(model, text_inputs([b"b"]))
        with pytest.raises(Refusal, match="A request may have 2 rows, got 3") as large:
            await batcher.ask(model, text_inputs([b"b"] * 3))
        late = await asyncio.gather(*waiting, return_exceptions=True)
        assert batcher.rows == 0
        model.gate.set()
        again = await batcher.ask(model, text_inputs([b"c"]))  # it goes on afterwards
        batcher.close()
        return [full.value.status, large.value.status, *(error.status for error in late)], str(late[0]), again

    statuses, sentence, again = asyncio.run(run())
    assert statuses == [429, 413, 504, 504, 504]
    assert sentence == "There was no answer within 0.3 s."
    assert again["text"].tolist() == [b"c"]
    assert model.batches == [[b"a"], [b"c"]]  # what nobody waits for is not asked


@pytest.mark.parametrize("name", ["max_batch_size", "max_queue", "timeout_s", "max_body_bytes", "workers"])
def test_limits_are_checked(name):
    with pytest.raises(ValueError, match=f"`{name}` must be at least"):
        Limits(**{name: 0})
