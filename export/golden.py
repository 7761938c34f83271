"""golden.jsonl: texts, what an artifact is fed for each, and what the model answers; to check the artifact anywhere."""

import json
from pathlib import Path

import numpy as np

from keras_bert.export import comparison

FILE = "golden.jsonl"
ALLOWED = 1e-4  # another machine rounds otherwise


def write(folder, texts, pairs, probes, run):
    """Asks both sides about each text and writes it, `signature`, `inputs` and Keras's `outputs` as a line.

    Args:
        probes: those of `texts` and `pairs` (or None), in their order.
        run: (signature, inputs) -> arrays by name, of the artifact.

    Returns:
        dict: "texts", how many; "largest_difference" of the artifact from the lines, labels left out.
    """
    largest, lines = 0.0, []
    for text, pair, probe in zip(texts, pairs or [None] * len(texts), probes, strict=True):
        expected = probe.keras()
        largest = max(largest, _difference(run(probe.signature, probe.inputs), expected))
        line = {"text": text} | ({} if pair is None else {"text_pair": pair}) | {"signature": probe.signature}
        line |= {"inputs": _plain(probe.inputs), "outputs": _plain(expected)}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    (Path(folder) / FILE).write_text("".join(lines), encoding="utf-8")
    return {"texts": len(lines), "largest_difference": largest}


def read(folder, integers):
    """Gives a `comparison.Probe` for every line, whose answers are those that the line has.

    Args:
        integers: the type of the artifact's ids, "int32" or "int64"; code points are int32.
    """
    for line in (Path(folder) / FILE).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        inputs, outputs = (_arrays(row[name], integers) for name in ("inputs", "outputs"))
        yield comparison.Probe(row["signature"], inputs, lambda outputs=outputs: outputs)


def _difference(got, expected):
    floats = [name for name, value in expected.items() if np.issubdtype(value.dtype, np.floating)]
    return max((comparison.difference(got[name], expected[name]) for name in floats), default=0.0)


def _plain(arrays):
    """Gives lists of what JSON has; floats with the digits that float32 has."""
    return {name: _items(value) for name, value in arrays.items()}


def _items(value):
    if isinstance(value, np.ndarray):
        return [_items(item) for item in value]
    if isinstance(value, bytes):
        return value.decode()
    return float(str(value)) if isinstance(value, np.floating) else int(value)


def _arrays(lists, integers):
    found = {}
    for name, value in lists.items():
        array = np.array(value)
        if array.dtype.kind == "U":
            found[name] = np.array([text.encode() for text in array.ravel().tolist()], object).reshape(array.shape)
        else:
            kind = "int32" if name.startswith("code_points") else integers
            found[name] = array.astype("float32" if array.dtype.kind == "f" else kind)
    return found
