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
from keras_bert.export import agreement, comparison, golden, signatures, snippets
from keras_bert.export.mediapipe_tokens import differing
from keras_bert.export.questions import questions
from keras_bert.files import check_replaceable, replace_folder
from keras_bert.heads import HEADS
from keras_bert.lora import merge
from keras_bert.prediction import check_asked

REPORT = "report.json"
QUANTIZED = 10.0  # difference that no quantization makes: its measure is the agreement, this one finds what is broken


@dataclasses.dataclass(frozen=True)
class Format:
    """Where a format's module is, and what it needs beside TensorFlow.

    The module has `write(bundle, folder, **options)`, `load(folder)`, `probes(keras, **options)`,
    `text_probes(keras, texts, pairs, **options)`, `describe(folder)`, the artifact's `FILE`, the `ALLOWED` difference
    and, for each way to quantize, what the measures of `agreement` must reach by `AGREEMENT`.

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


def export(bundle, path, format="saved_model", evaluation=None, calibration=None, **options):
    """Writes an artifact, loads it back by the format's own runtime and compares it with Keras.

    Args:
        bundle: a `Bundle`; adapters are merged into what is written.
        path: folder to write; an export that is there is replaced, and only once the new one is complete and agrees.
        format: key in `FORMATS`.
        evaluation: texts of the user's own on which both are asked: a list of str, or of (text, pair), where
            a multiple_choice has a list of choices for the pair.
        calibration: texts like those of `evaluation`, best others, on which `quantize` "int8" measures its ranges.
        options: those of the format's `write`: `max_length`; for tflite and onnx `inputs` and `quantize`; for tflite
            `max_code_points` and `choices`; with text in, the settings that `predict` has for the head. A quantized
            file is written only if it keeps the model's answers on the texts of `evaluation`, or else on
            `agreement.TEXTS`: 99.5% for "float16", for "dynamic" 98.5% (tflite) and 98% (onnx), for "int8" and
            "weight_only" 98%; vectors must have a mean cosine of 0.99, for "weight_only" each of them, and scores that
            correlation.

    Returns:
        The report, which is also written to `report.json`: `format`, `head`, `labels`, `options`, `bytes`;
        `largest_difference` (relative where the value is above 1) and `allowed_difference`; `agreement`, the share of
        probe texts with the same answer; `evaluation`, what `agreement.measure` gives, where there was one;
        `operations` with counts; `latency_ms` and `keras_latency_ms`, medians for one short text; `versions`; for onnx
        also `fused`, the nodes that ONNX Runtime makes; for "int8" `left_out`, what is float32 there; for `inputs`
        "mediapipe" with an `evaluation` `mediapipe_tokens`, the texts that MediaPipe splits otherwise. Where a text is
        enough for an answer, `golden.jsonl` has 50 texts with the model's answers, by which `verify` checks the
        artifact anywhere; `golden` has their difference.
        HOWTO.md shows how this artifact is asked in six languages.

    Raises:
        ImportError: an extra is missing.
        ValueError: the artifact disagrees with Keras or cannot be made; nothing is written then.
    """
    chosen = _checked(bundle, path, format)
    bundle = bundle if bundle.config.lora is None else merge(bundle)
    module = importlib.import_module(chosen.module)
    _check_options(bundle, module, format, options)
    quantize = options.get("quantize")
    texts = ()
    if evaluation is not None or quantize is not None:
        texts = _asked_texts(bundle, module, evaluation, options)
    reference, file = signatures.Keras(bundle), Path(path) / module.FILE
    asked = module.text_probes(reference, *texts, **options) if texts else ()
    samples = _samples(bundle, module, reference, calibration, options)
    with replace_folder(path) as folder:
        module.write(bundle, folder, **options, **samples)
        run, probes = module.load(folder), module.probes(reference, **options)
        largest, same = comparison.compare(probes, run, exact=quantize is None)
        allowed = module.ALLOWED if quantize is None else QUANTIZED
        _check_difference(format, file, largest, allowed)
        measured = None
        if evaluation is not None or quantize is not None:
            measured = agreement.measure(bundle.head, asked or probes, run)
        if quantize is not None:
            _check_quantized(format, file, quantize, measured, module.AGREEMENT[quantize])
        report = {
            "format": format,
            "head": bundle.head,
            "labels": bundle.labels,
            "options": options,
            "bytes": _size(folder, module.FILE),
            "largest_difference": largest,
            "allowed_difference": allowed,
            "agreement": same if quantize is None else measured.get("agreement"),
            "evaluation": measured,
            "latency_ms": comparison.median_ms(lambda: run(probes[0].signature, probes[0].inputs)),
            "keras_latency_ms": comparison.median_ms(probes[0].keras),
            **module.describe(folder),
            "versions": _versions(chosen),
        }
        if evaluation is not None and options.get("inputs") == "mediapipe":
            report["mediapipe_tokens"] = differing(bundle.tokenizer, texts[0], probes[0].inputs["token_ids"].shape[1])
        texts = _asked_texts(bundle, module, None, options) if signatures.takes(bundle) else ()
        if texts:
            report["golden"] = golden.write(folder, *texts, module.text_probes(reference, *texts, **options), run)
            _check_difference(format, file, report["golden"]["largest_difference"], allowed)
        answers = run(probes[0].signature, probes[0].inputs)
        snippets.write(folder, format, path, probes[0], answers, bundle.labels)
        (folder / REPORT).write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return report


def verify(path):
    """Loads an artifact back by its own runtime, without the model, and asks it about the texts of its golden.jsonl.

    Returns:
        dict: "format", "largest_difference", "allowed_difference", and in "evaluation" what `agreement.measure` gives.
        A quantized file may differ twice as much as it did when it was made.

    Raises:
        ImportError: an extra is missing.
        ValueError: there is no export, it has no golden texts, or its answers are others.
    """
    path = Path(path)
    for name, what in ((REPORT, "no export"), (golden.FILE, "no export that a text is enough for")):
        if not (path / name).is_file():
            raise ValueError(f"{path} must hold {name}; a folder without it is {what}.")
    report = json.loads((path / REPORT).read_text(encoding="utf-8"))
    module = importlib.import_module(_installed(report["format"]).module)
    run, probes = module.load(path), list(golden.read(path, module.INTEGERS))
    largest, _ = comparison.compare(probes, run, exact=False)
    allowed = golden.ALLOWED
    if "quantize" in report["options"]:
        allowed += 2 * report["golden"]["largest_difference"]
    if not largest <= allowed:
        raise ValueError(
            f"{path / module.FILE} gives other answers than when it was made: max difference {largest:.2e}, allowed "
            f"{allowed:.2e}. Export it again."
        )
    return {
        "format": report["format"],
        "largest_difference": largest,
        "allowed_difference": allowed,
        "evaluation": agreement.measure(report["head"], probes, run),
    }


def _checked(bundle, path, format):
    """Gives the `Format`, after what can be checked before any work."""
    if format not in FORMATS:
        raise ValueError(f"Unknown format `{format}`.{did_you_mean(format, FORMATS)} Known: {', '.join(FORMATS)}.")
    if keras.backend.backend() != "tensorflow":
        raise ValueError(f"Exports need KERAS_BACKEND=tensorflow, got {keras.backend.backend()}.")
    chosen = _installed(format)
    other = {layer.dtype_policy.name for layer in bundle.model.layers} - {"float32"}
    if format != "saved_model" and other:
        raise ValueError(
            f"`{format}` takes models of the policy float32, got {min(other)}. "
            "Save the model, and load it under float32."
        )
    check_replaceable(path)
    return chosen


def _installed(format):
    """Gives the `Format`; refuses where its packages are missing."""
    chosen = FORMATS[format]
    missing = [name for name, module in chosen.packages.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise ImportError(
            f'The format `{format}` needs {", ".join(missing)}: pip install "keras3-bert[{chosen.extra}]"'
        )
    return chosen


def _check_difference(format, file, largest, allowed):
    if not largest <= allowed:
        raise ValueError(
            f"The {format} file disagrees with the model: max difference {largest:.2e}, allowed {allowed:.0e}. "
            f"File: {file} (not written)"
        )


def _check_options(bundle, module, format, options):
    parameters = list(inspect.signature(module.write).parameters.values())[2:]
    known = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.name != "samples"]
    head = HEADS.get(bundle.head)
    known += [] if head is None or head.answer is None else head.answer.settings
    for name in options:
        if name not in known:
            raise ValueError(f"`{format}` takes no option `{name}`.{did_you_mean(name, known)}")


def _asked_texts(bundle, module, given, options, name="evaluation"):
    """Gives (texts, pairs or None) of what was `given`, or else of `agreement`; () where the model needs more."""
    if given is not None and len(given) == 0:
        raise ValueError(f"`{name}` must hold at least one text, got none.")
    default = inspect.signature(module.write).parameters.get("inputs")
    inputs = options.get("inputs", default and default.default)
    by_text = signatures.takes(bundle) is not None and inputs in (None, "text", "pair")
    more = bundle.head == "multiple_choice" or signatures.MASKED in signatures.inputs(bundle)
    if (more and not by_text) or bundle.tokenizer is None:
        if given is not None:
            raise ValueError(f"`{name}` needs a tokenizer and a head for one text or pair, got {bundle.head}.")
        return ()
    if given is None:
        return questions(bundle, agreement.TEXTS, inputs == "pair")
    texts, pairs = list(given), None
    if isinstance(texts[0], tuple | list):
        texts, pairs = (list(values) for values in zip(*texts, strict=True))
    check_asked(bundle, texts, pairs)
    return texts, pairs


def _samples(bundle, module, reference, calibration, options):
    """What `write` needs of the texts for calibration: {"samples": inputs of the file}, {} where it takes none."""
    if options.get("quantize") != "int8" or "int8" not in module.AGREEMENT:
        if calibration is not None:
            raise ValueError("`calibration` is for the format tflite with `quantize` 'int8'.")
        return {}
    texts = _asked_texts(bundle, module, calibration, options, "calibration")
    if not texts:
        raise ValueError(f"`quantize` 'int8' needs a tokenizer and a head for one text or pair, got {bundle.head}.")
    return {"samples": [probe.inputs for probe in module.text_probes(reference, *texts, **options)]}


def _check_quantized(format, file, quantize, measured, needed):
    lacks = agreement.shortfall(measured, needed)
    if lacks:
        raise ValueError(
            f"The {format} file with `quantize` {quantize!r} {lacks}. Give texts of your own as `evaluation`, or "
            f"quantize less. File: {file} (not written)"
        )


def _size(folder, file):
    """Bytes of the artifact: of its one file, or of a SavedModel's folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    if file != "saved_model.pb":
        files = [folder / file]
    return sum(path.stat().st_size for path in files)


def _versions(chosen):
    names = ["tensorflow", "keras", *chosen.packages]
    return {"keras3-bert": keras_bert.__version__} | {name: importlib.metadata.version(name) for name in names}
