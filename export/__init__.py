"""Exports: a bundle becomes an artifact that answers without this package, loaded back and compared."""

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
from pathlib import Path

import keras

import keras_bert
from keras_bert.config import did_you_mean
from keras_bert.export import comparison
from keras_bert.files import replace_folder

REPORT = "report.json"


@dataclasses.dataclass(frozen=True)
class Format:
    """Where a format's module is, and what it needs beside TensorFlow.

    The module has `write(bundle, folder, **options)`, `load(folder)`, `probes(bundle, **options)`, `describe(folder)`,
    the artifact's `FILE` and the `ALLOWED` difference.

    Args:
        extra: the extra of `keras3-bert` that installs `packages`.
        packages: distribution -> module that it brings.
    """

    module: str
    extra: str | None = None
    packages: dict = dataclasses.field(default_factory=dict)


FORMATS = {
    "saved_model": Format("keras_bert.export.saved_model"),
    "tflite": Format(
        "keras_bert.export.tflite", "tflite", {"ai-edge-litert": "ai_edge_litert", "flatbuffers": "flatbuffers"}
    ),
    "onnx": Format(
        "keras_bert.export.onnx", "onnx", {"tf2onnx": "tf2onnx", "onnx": "onnx", "onnxruntime": "onnxruntime"}
    ),
}


def export(bundle, path, format="saved_model", **options):
    """Writes an artifact, loads it back by the format's own runtime and compares it with Keras.

    Args:
        bundle: a `Bundle`.
        path: folder to write; an export that is there is replaced, and only once the new one is complete and agrees.
        format: key in `FORMATS`.
        options: those of the format's `write`: `max_length` for saved_model and tflite; for tflite also `inputs` and
            `max_code_points`.

    Returns:
        The report, which is also written to `report.json`: `format`, `head`, `labels`, `options`, `bytes`;
        `largest_difference` (relative where the value is above 1) and `allowed_difference`; `agreement`, the share of
        probe texts with the same answer; `operations` with counts; `latency_ms` and `keras_latency_ms`, medians for one
        short text; `versions`; for onnx also `fused`, the nodes that ONNX Runtime makes.

    Raises:
        ImportError: an extra is missing.
        ValueError: the artifact disagrees with Keras or cannot be made; nothing is written then.
    """
    chosen = _checked(path, format, options)
    module = importlib.import_module(chosen.module)
    _check_options(module, format, options)
    with replace_folder(path) as folder:
        module.write(bundle, folder, **options)
        run, probes = module.load(folder), module.probes(bundle, **options)
        largest, agreement = comparison.compare(probes, run)
        if not largest <= module.ALLOWED:
            raise ValueError(
                f"The {format} file disagrees with the model: max difference {largest:.2e}, allowed "
                f"{module.ALLOWED:.0e}. File: {Path(path) / module.FILE} (not written)"
            )
        report = {
            "format": format,
            "head": bundle.head,
            "labels": bundle.labels,
            "options": options,
            "bytes": _size(folder, module.FILE),
            "largest_difference": largest,
            "allowed_difference": module.ALLOWED,
            "agreement": agreement,
            "latency_ms": comparison.median_ms(lambda: run(probes[0].signature, probes[0].inputs)),
            "keras_latency_ms": comparison.median_ms(probes[0].keras),
            **module.describe(folder),
            "versions": _versions(chosen),
        }
        (folder / REPORT).write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return report


def _checked(path, format, options):
    """Gives the `Format`, after what can be checked before any work."""
    if format not in FORMATS:
        raise ValueError(f"Unknown format `{format}`.{did_you_mean(format, FORMATS)} Known: {', '.join(FORMATS)}.")
    if keras.backend.backend() != "tensorflow":
        raise ValueError(f"Exports need KERAS_BACKEND=tensorflow, got {keras.backend.backend()}.")
    chosen = FORMATS[format]
    missing = [name for name, module in chosen.packages.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise ImportError(
            f'The format `{format}` needs {", ".join(missing)}: pip install "keras3-bert[{chosen.extra}]"'
        )
    path = Path(path)
    if path.is_dir() and any(path.iterdir()) and not (path / REPORT).is_file():
        raise ValueError(f"{path} holds files that are no export; the folder is replaced whole. Name another place.")
    return chosen


def _check_options(module, format, options):
    known = list(inspect.signature(module.write).parameters)[2:]
    for name in options:
        if name not in known:
            raise ValueError(f"`{format}` takes no option `{name}`.{did_you_mean(name, known)}")


def _size(folder, file):
    """Bytes of the artifact: of its one file, or of a SavedModel's folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    if file != "saved_model.pb":
        files = [folder / file]
    return sum(path.stat().st_size for path in files)


def _versions(chosen):
    names = ["tensorflow", "keras", *chosen.packages]
    return {"keras3-bert": keras_bert.__version__} | {name: importlib.metadata.version(name) for name in names}
