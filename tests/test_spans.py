"""The best spans against a search through all of them."""

import numpy as np
import pytest
from keras import ops

from keras_bert.spans import NO_SPAN, best_of_texts, best_spans, span_rows


def by_search(logits, inside, starts, ends, longest):
    """All spans of one window, best first: (score, start, end)."""
    places = np.flatnonzero(inside)
    found = [
        (float(logits[i, 0] + logits[j, 1]), int(starts[i]), int(ends[j]))
        for i in places
        for j in places
        if i <= j < i + longest
    ]
    return sorted(found, key=lambda span: -span[0])


@pytest.mark.parametrize(("top", "longest"), [(1, 30), (1, 1), (4, 3)])
def test_spans_are_those_of_a_search(top, longest):
    rng = np.random.default_rng(top)
    logits = rng.normal(0, 3, (5, 17, 2)).astype("float32")
    inside = np.zeros((5, 17), "int32")
    for row, (begin, end) in enumerate([(4, 15), (4, 5), (9, 16), (3, 14), (5, 5)]):
        inside[row, begin:end] = 1
    starts = np.cumsum(rng.integers(1, 4, (5, 17)), axis=1).astype("int32")
    ends = starts + 1
    given = [ops.convert_to_tensor(x) for x in (logits, inside, starts, ends)]
    found = {name: ops.convert_to_numpy(x) for name, x in best_spans(*given, longest, top).items()}
    np.testing.assert_array_equal(found["null_score"], logits[:, 0].sum(axis=-1))
    for row in range(5):
        expected = by_search(logits[row], inside[row], starts[row], ends[row], longest)[:top]
        expected += [(NO_SPAN, -1, -1)] * (top - len(expected))
        got = zip(found["score"][row].tolist(), found["start"][row].tolist(), found["end"][row].tolist(), strict=True)
        assert list(got) == expected
    assert expected[0][0] == NO_SPAN  # the last window has no context


def test_best_of_a_texts_windows():
    windows = {
        "start": [[3, 1], [3, 8], [-1, -1]],
        "end": [[5, 2], [5, 9], [-1, -1]],
        "score": [[2.0, 1.0], [4.0, 3.0], [NO_SPAN, NO_SPAN]],
        "null_score": [1.0, 0.5, 7.0],
    }
    found = best_of_texts(windows, np.array([0, 0, 1]), 2, top=3)
    assert found["start"].tolist() == [[3, 8, 1], [-1, -1, -1]]
    assert found["score"].tolist() == [[4.0, 3.0, 1.0], [NO_SPAN] * 3]
    assert found["null_score"].tolist() == [0.5, 7.0]
    rows = span_rows(found, ["abcdefghij", ""], null_threshold=0.0)
    assert rows[0] == {
        "answer": "de",
        "start": 3,
        "end": 5,
        "score": 4.0,
        "null_score": 0.5,
        "others": [
            {"answer": "i", "start": 8, "end": 9, "score": 3.0},
            {"answer": "b", "start": 1, "end": 2, "score": 1.0},
        ],
    }
    assert (rows[1]["answer"], rows[1]["start"], rows[1]["others"]) == (None, None, [])


@pytest.mark.parametrize(("threshold", "answer"), [(-3.6, None), (-3.5, "de"), (0, "de")])
def test_no_answer_has_to_be_better_by_the_threshold(threshold, answer):
    found = {"start": [[3]], "end": [[5]], "score": [[4.0]], "null_score": [0.5]}
    found = {name: np.array(values) for name, values in found.items()}
    (row,) = span_rows(found, ["abcdefg"], threshold)
    assert row["answer"] == answer
    assert row["score"] == 4.0
