"""Compares an artifact with Keras: probes go through both, and the differences are counted."""

import dataclasses
import statistics
import time
from collections.abc import Callable

import numpy as np

from keras_bert.export.signatures import MASKED, axes, inputs, limits

SHORT = "A short sentence about the weather in spring."
LONG = "The quick brown fox jumps over the lazy dog. " * 150
TEXTS = (
    SHORT,
    "",
    "   ",
    "\t\n",
    b"\xff\xfe",
    "商务大床房，2T 😀",
    "Ünïcödé ﬁ Ǆ — “quotes” don't",
    "[CLS] [SEP] [MASK] ##ing",
    "a" * 5000,
)

CLOSE = 1e-4  # difference up to which two values count as the same answer, relative above 1
SAME_DIRECTION = 0.9999  # cosine from which on two vectors do, if they have the same largest value


@dataclasses.dataclass(frozen=True)
class Probe:
    """One batch for both sides.

    Args:
        signature: which function of the artifact it is for.
        inputs: arrays by name, as the artifact takes them.
        keras: () -> the expected arrays by name.
    """

    signature: str
    inputs: dict
    keras: Callable


def id_probe(keras, signature, features, dtype="int32"):
    """A probe of ids, whose answer is the model's output; `keras` is a `signatures.Keras`."""
    given = {name: features[name].astype(dtype) for name in inputs(keras.bundle)}
    return Probe(signature, given, lambda: keras.outputs(features))


def random_features(bundle, batch, length, masked=3):
    """Ids of all kinds (B, T), for choices (B, 2, T), with padding behind all rows but the first; always the same."""
    rng = np.random.default_rng(batch * 1000 + length)
    choices = (2,) * (len(axes(bundle, "token_ids")) - 2)
    lengths = rng.integers(1, length + 1, (batch, *choices))
    lengths[0] = length
    mask = (np.arange(length) < lengths[..., None]).astype("int32")
    features = {"padding_mask": mask, MASKED: rng.integers(0, length, (batch, masked)).astype("int32")}
    for name, limit in limits(bundle):
        if name not in features:
            features[name] = (rng.integers(0, limit, mask.shape) * mask).astype("int32")
    return {name: features[name] for name in inputs(bundle)}


def compare(probes, run, exact=True):
    """Runs all probes on both sides.

    Args:
        probes: list of `Probe`.
        run: (signature, inputs) -> arrays by name, of the artifact.
        exact: whether another label counts as a difference; a quantized file may have one.

    Returns:
        The largest `difference`, and the share of texts with the same answer by `same_answers`.
    """
    largest, same = 0.0, []
    for probe in probes:
        expected, got = probe.keras(), run(probe.signature, probe.inputs)
        if expected.keys() != got.keys():
            raise ValueError(f"`{probe.signature}` must give {sorted(expected)}, got {sorted(got)}.")
        rows = np.ones(len(next(iter(expected.values()))), bool)
        for name, value in expected.items():
            if exact or np.issubdtype(value.dtype, np.floating):
                largest = max(largest, difference(got[name], value))
            rows &= same_answers(got[name], value)
        same.append(rows)
    return largest, float(np.concatenate(same).mean())


def difference(got, expected):
    """Gives the largest |a - b| / max(1, |b|); infinity for another shape and for what is not finite or not equal."""
    if got.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    if not np.issubdtype(expected.dtype, np.floating):
        return 0.0 if np.array_equal(got, expected) else float("inf")
    if not (np.isfinite(got).all() and np.isfinite(expected).all()):
        return float("inf")
    return float((np.abs(got - expected) / np.maximum(1.0, np.abs(expected))).max(initial=0.0))


def same_answers(got, expected):
    """Gives bool (B,): equal labels; values that are close, or whose direction is the same and the largest one too."""
    if got.shape != expected.shape:
        return np.zeros(len(expected), bool)
    rows = len(expected)
    if not expected.size:
        return np.ones(rows, bool)
    if not np.issubdtype(expected.dtype, np.floating):
        return (got == expected).reshape(rows, -1).all(axis=1)
    got, expected = (value if value.ndim > 1 else value[:, None] for value in (got, expected))
    close = (np.abs(got - expected) <= CLOSE * np.maximum(1.0, np.abs(expected))).all(axis=-1)
    lengths = np.linalg.norm(got, axis=-1) * np.linalg.norm(expected, axis=-1)
    cosine = (got * expected).sum(axis=-1) / np.maximum(lengths, 1e-12)
    alike = (cosine >= SAME_DIRECTION) & (got.argmax(axis=-1) == expected.argmax(axis=-1))
    return (close | alike).reshape(rows, -1).all(axis=1)


def check_quantize(quantize, known):
    """Refuses a way to quantize that the format does not know."""
    if quantize is not None and quantize not in known:
        raise ValueError(f"`quantize` must be one of {', '.join(known)}, got {quantize!r}.")


def median_ms(run, repeats=15):
    """Gives the median time of a call in milliseconds, after two calls to warm up."""
    times = []
    for _ in range(repeats + 2):
        start = time.perf_counter()
        run()
        times.append(1000 * (time.perf_counter() - start))
    return round(statistics.median(times[2:]), 3)
