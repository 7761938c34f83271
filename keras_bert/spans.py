"""Answers as spans of a context: the best of a window in `keras.ops` for every export, the best of a text in Python."""

import numpy as np
from keras import ops

from keras_bert.tokenization.gathering import take

NO_SPAN = -1e9  # score where a context has no token


def best_spans(logits, inside, starts, ends, max_answer_tokens, top=1):
    """Finds the spans of the context whose start and end score highest together.

    Args:
        logits: (W, T, 2); inside: (W, T) int32, 1 at tokens of the context.
        starts, ends: (W, T) int32, places of the tokens in the context.
        max_answer_tokens: most tokens of a span.

    Returns:
        `start`, `end` (W, K) int32 in code points, -1 where there is no span; `score` (W, K), sum of the two logits,
        K = `top`, highest first; `null_score` (W,), the same of [CLS], for no answer in this window.

    Source: Devlin et al. 2018, sections 4.2 and 4.3.
    """
    rows, size = ops.shape(inside)
    first, last = logits[:, :, 0], logits[:, :, 1]
    null_score = first[:, 0] + last[:, 0]
    barred = ops.cast(1 - inside, "float32") * (2 * NO_SPAN)
    first, last = first + barred, ops.pad(last + barred, [[0, 0], [0, max_answer_tokens]], constant_values=2 * NO_SPAN)
    by_length = [ops.expand_dims(last[:, i : i + size], 2) for i in range(max_answer_tokens)]
    scores = ops.expand_dims(first, 2) + ops.concatenate(by_length, axis=2)  # (W, T, L)
    scores = ops.reshape(scores, (rows, size * max_answer_tokens))
    score, place = ops.top_k(scores, top)
    place = ops.cast(place, "int32")
    begin = place // max_answer_tokens
    end = begin + place % max_answer_tokens
    found = score > NO_SPAN
    row = ops.expand_dims(ops.arange(rows) * size, 1)

    def at(values, places):
        return ops.where(found, take(ops.reshape(values, (-1,)), row + ops.minimum(places, size - 1)), -1)

    return {
        "start": at(starts, begin),
        "end": at(ends, end),
        "score": ops.where(found, score, NO_SPAN),
        "null_score": null_score,
    }


def best_of_texts(windows, text_index, count, top=1):
    """Merges what `best_spans` gives of all windows: the same as NumPy arrays, with a row a text.

    Of equal spans the first counts, and of equal scores the first; `null_score` is the lowest of a text's windows.
    """
    windows = {name: np.asarray(values) for name, values in windows.items()}
    merged = {"start": np.full((count, top), -1, "int32"), "end": np.full((count, top), -1, "int32")}
    merged |= {"score": np.full((count, top), NO_SPAN, "float32"), "null_score": np.zeros(count, "float32")}
    for text in range(count):
        chosen = {name: values[text_index == text] for name, values in windows.items()}
        merged["null_score"][text] = chosen["null_score"].min()
        start, end, score = (chosen[name].ravel() for name in ("start", "end", "score"))
        seen = {}
        for i in np.argsort(-score, kind="stable"):
            if start[i] >= 0:
                seen.setdefault((start[i], end[i]), score[i])
        for rank, ((begin, stop), value) in enumerate(list(seen.items())[:top]):
            merged["start"][text, rank], merged["end"][text, rank] = begin, stop
            merged["score"][text, rank] = value
    return merged


def answered(found, null_threshold):
    """Whether the best span counts: no answer is not better than it by more than `null_threshold`; bool (B,)."""
    return (found["start"] >= 0) & (found["null_score"] - found["score"] <= null_threshold)


def settled(found, null_threshold):
    """Gives "start", "end", "score", "null_score" (B,), places of -1 where the best span does not count."""
    counts = answered(found, null_threshold)
    return found | {name: ops.where(counts, found[name], -1) for name in ("start", "end")}


def span_rows(found, contexts, null_threshold):
    """Per text {"answer", "start", "end", "score", "null_score"}; answer and places are None where none counts.

    With more than one span a text, `others` has the next best: dicts of "answer", "start", "end", "score".
    """
    rows = []
    best = {name: values[:, 0] if values.ndim > 1 else values for name, values in found.items()}
    for i, (context, counts) in enumerate(zip(contexts, answered(best, null_threshold), strict=True)):
        columns = zip(*(found[name][i].tolist() for name in ("start", "end", "score")), strict=True)
        spans = [
            {"answer": context[start:end], "start": start, "end": end, "score": score} for start, end, score in columns
        ]
        row = spans[0] if counts else {"answer": None, "start": None, "end": None, "score": spans[0]["score"]}
        row["null_score"] = float(found["null_score"][i])
        if len(spans) > 1:
            row["others"] = [span for span in spans[1 if counts else 0 :] if span["start"] >= 0]
        rows.append(row)
    return rows
