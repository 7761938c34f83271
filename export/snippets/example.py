"""What snippets are made of: an artifact's names and sizes, with an example of what it is asked."""

import dataclasses
import json

import numpy as np


@dataclasses.dataclass(frozen=True)
class Input:
    """One input with an example.

    Args:
        dtype: "string", "int32" or "int64".
        shape: of the example.
        rows: strings, nested as they are fed; or for numbers, whose last axis has `width`, lists of them without the
            zeros at the end; or for code points, the texts that they are.
    """

    name: str
    dtype: str
    shape: tuple
    rows: list
    width: int = 0

    @property
    def is_text(self):
        """Whether the rows of numbers are texts."""
        return self.dtype != "string" and isinstance(self.rows[0], str)


@dataclasses.dataclass(frozen=True)
class Artifact:
    """What is asked, and what it answers.

    Args:
        inputs: list of `Input`.
        outputs: dict of the arrays that it answers the example.
        model: its name on a server.
        definition: a SavedModel's `SignatureDef`, which has its tensors' names.
    """

    inputs: list
    outputs: dict
    signature: str
    model: str
    definition: object = None


def input_of(name, array):
    """Gives the `Input` of an array of bytes or integers."""
    if array.dtype == object:
        return Input(name, "string", array.shape, _texts(array.tolist()))
    rows = [row.tolist() for row in np.asarray(array).reshape(-1, array.shape[-1])]
    rows = [row[: int(np.flatnonzero(row)[-1]) + 1] if any(row) else [0] for row in rows]
    if name.startswith("code_points"):
        rows = ["".join(map(chr, row)) if any(row) else "" for row in rows]
    return Input(name, str(array.dtype), array.shape, rows, array.shape[-1])


def _texts(value):
    return [_texts(part) for part in value] if isinstance(value, list) else value.decode(errors="replace")


def quoted(text):
    """A string as Python, C++, Java, Kotlin, Swift and JavaScript have it."""
    return json.dumps(text, ensure_ascii=False)


def braced(value):
    """Nested strings or numbers in braces."""
    if isinstance(value, list):
        return "{" + ", ".join(map(braced, value)) + "}"
    return quoted(value) if isinstance(value, str) else str(value)


def sizes_of(shape):
    """A shape without brackets."""
    return ", ".join(map(str, shape))


def url(artifact):
    """Where a server answers."""
    return f"http://localhost:8501/v1/models/{artifact.model}:predict"


def body(artifact):
    """What a server is asked."""
    inputs = {}
    for i in artifact.inputs:
        padded = i.rows if i.dtype == "string" else [(row + [0] * i.width)[: i.width] for row in i.rows]
        inputs[i.name] = padded if i.dtype == "string" else np.array(padded).reshape(i.shape).tolist()
    return {"signature_name": artifact.signature, "inputs": inputs}
