"""Answers texts by exported files alone: run as `python -I fresh_process.py`, a job in and answers out as JSON.

It stands for somebody's server or phone: it imports the runtimes and nothing of the package that made the files.
"""

import json
import os
import sys
from pathlib import Path


def from_saved_model(folder, job):
    """Strings in, labels as strings out."""
    import tensorflow as tf

    answer = tf.saved_model.load(folder).signatures["serving_default"](text=tf.constant(job["texts"]))
    return [label.decode() for label in answer["label"].numpy()], answer["probabilities"].numpy()


def from_tflite(folder, job):
    """Code points in, one text at a time; the label's name stands in labels.txt."""
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(str(Path(folder) / "model.tflite")).get_signature_runner("serving_default")
    size = runner.get_input_details()["code_points"]["shape"][1]
    labels, probabilities = [], []
    for text in job["texts"]:
        points = [ord(letter) for letter in text][:size]
        answer = runner(code_points=np.array([points + [0] * (size - len(points))], "int32"))
        labels.append(names(folder)[int(answer["label"][0])])
        probabilities.append(answer["probabilities"][0])
    return labels, np.array(probabilities)


def from_onnx(folder, job):
    """Ids in, made beforehand; logits out."""
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(str(Path(folder) / "model.onnx"), providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {name: np.array(ids, "int64") for name, ids in job["ids"].items()})
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return [names(folder)[i] for i in logits.argmax(axis=1)], powers / powers.sum(axis=1, keepdims=True)


def names(folder):
    """The labels, in the order of the classes."""
    return (Path(folder) / "labels.txt").read_text(encoding="utf-8").splitlines()


RUNTIMES = {"saved_model": from_saved_model, "tflite": from_tflite, "onnx": from_onnx}


def main():
    """Reads {"artifacts": {format: folder}, "texts", "ids"}; writes {format: [[label, probability], ...]}."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    job = json.load(sys.stdin)
    answers = {}
    for format_, folder in job["artifacts"].items():
        labels, probabilities = RUNTIMES[format_](folder, job)
        answers[format_] = [[label, float(row.max())] for label, row in zip(labels, probabilities, strict=True)]
    foreign = [name for name in sys.modules if name.split(".")[0] == "keras_bert"]
    json.dump({"answers": answers, "package_modules": foreign}, sys.stdout)


if __name__ == "__main__":
    main()
