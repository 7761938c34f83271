"""HOWTO.md beside an artifact: how this very one is loaded and asked, in six languages, with its names and sizes.

The tests run the Python of every format, the C++ for SavedModels and the JavaScript for servers, and let javac parse
the Java without its libraries. The other languages, and C++ for TFLite and ONNX, have been compiled by nobody here.
"""

from pathlib import Path

from tensorflow.core.protobuf import saved_model_pb2

from keras_bert.export.snippets import cpp, javascript, jvm, python, swift
from keras_bert.export.snippets.example import Artifact, input_of

FILE = "HOWTO.md"
NAMES = {"python": "Python", "cpp": "C++", "java": "Java", "kotlin": "Kotlin", "swift": "Swift", "js": "JavaScript"}
SNIPPETS = {
    "saved_model": {
        "python": python.saved_model,
        "cpp": cpp.saved_model,
        "java": jvm.java_saved_model,
        "kotlin": jvm.kotlin_saved_model,
        "swift": swift.rest,
        "js": javascript.rest,
    },
    "tflite": {
        "python": python.tflite,
        "cpp": cpp.tflite,
        "java": jvm.java_tflite,
        "kotlin": jvm.kotlin_tflite,
        "swift": swift.tflite,
        "js": javascript.tflite,
    },
    "onnx": {
        "python": python.onnx,
        "cpp": cpp.onnx,
        "java": jvm.java_onnx,
        "kotlin": jvm.kotlin_onnx,
        "swift": swift.onnx,
        "js": javascript.onnx,
    },
}


def write(folder, format, place, probe, outputs, labels):
    """Writes HOWTO.md.

    Args:
        folder: where the artifact is now; `place`, where it will be, whose name is the served model's.
        probe: a `comparison.Probe`, whose inputs are the example.
        outputs: dict of the arrays that the artifact answers.
        labels: the model's, or None.
    """
    place = Path(place).resolve()
    model, definition = place.parent.name if place.name.isdigit() else place.name, None
    if format == "saved_model":
        read = saved_model_pb2.SavedModel.FromString((Path(folder) / "saved_model.pb").read_bytes())
        definition = read.meta_graphs[0].signature_def[probe.signature]
    inputs = [input_of(name, array) for name, array in probe.inputs.items()]
    artifact = Artifact(inputs, outputs, probe.signature, model, definition)
    parts = ["# How to ask this file" if definition is None else "# How to ask this SavedModel"]
    parts.append("The programs run in this folder. Inputs and outputs go by these names.")
    parts.append(_table("input", {i.name: (i.dtype, i.shape) for i in inputs}))
    parts.append(_table("output", {name: (_dtype(array), array.shape) for name, array in outputs.items()}))
    if labels and format != "saved_model":
        parts.append("Classes are numbers; `labels.txt` has their names, a line each.")
    for language, make in SNIPPETS[format].items():
        parts.append(f"## {NAMES[language]}\n\n```{language}\n{make(artifact).strip()}\n```")
    (Path(folder) / FILE).write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _dtype(array):
    return "string" if array.dtype == object else str(array.dtype)


def _table(what, rows):
    lines = [f"| {what} | type | shape here |", "|---|---|---|"]
    return "\n".join(lines + [f"| `{name}` | {dtype} | {tuple(shape)} |" for name, (dtype, shape) in rows.items()])
