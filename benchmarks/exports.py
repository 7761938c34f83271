"""Exported files: what making ONNX costs, ONNX Runtime on our file and on torch's, TFLite in int8 and float32."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import keras_bert
from benchmarks import report
from benchmarks.inference import LABELS, features, new_model, repeated
from benchmarks.rounds import Contestant, interleaved, medians, prepared
from benchmarks.training import Sizes

BASE = Sizes(hidden_size=768, num_hidden_layers=12, intermediate_size=3072)
SHAPES = {(1, 32): 10, (32, 32): 1, (1, 128): 3, (8, 128): 1}  # (B, T) -> calls in a round
TORCH_INPUTS = {"token_ids": "input_ids", "padding_mask": "attention_mask", "segment_ids": "token_type_ids"}
OPSET = 17


def our_onnx(folder):
    from keras_bert.export import onnx

    made = Path(tempfile.mkdtemp(dir=folder))
    onnx.write(keras_bert.load(folder), made)
    return asked_by_onnxruntime(made / onnx.FILE, {name: name for name in TORCH_INPUTS})


def torch_onnx(folder):
    """The same weights by transformers and torch's own exporter."""
    import torch
    import transformers

    model = transformers.BertForSequenceClassification.from_pretrained(folder).eval()
    path, names = Path(tempfile.mkdtemp(dir=folder)) / "model.onnx", list(TORCH_INPUTS.values())
    free = {name: {0: "batch", 1: "sequence"} for name in names} | {"logits": {0: "batch"}}
    ids = tuple(torch.ones((2, 7), dtype=torch.int64) for _ in names)
    torch.onnx.export(
        model,
        ids,
        path,
        input_names=names,
        output_names=["logits"],
        dynamic_axes=free,
        opset_version=OPSET,
        dynamo=False,
    )
    return asked_by_onnxruntime(path, TORCH_INPUTS)


def asked_by_onnxruntime(path, names):
    """Gives ids -> logits of a file, with the options that both files get: one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(["logits"], {names[name]: ids.astype("int64") for name, ids in x.items()})[0]


CONTESTANTS = (
    Contestant("ours", "tf2onnx", our_onnx),
    Contestant("transformers, torch.onnx.export", "torch", torch_onnx),
)


def beside_torch(sizes, rounds):
    """Rows: a file each, its largest difference from ours, then CPU milliseconds a call, and against ours."""
    with tempfile.TemporaryDirectory() as folder:
        new_model(sizes, folder)
        runs = prepared(CONTESTANTS, folder)
    rows, columns = {name: [name] for name in runs}, ["file", "largest difference"]
    x = features(sizes, 3, 32)
    first = runs["ours"](x)
    for name, run in runs.items():
        rows[name].append(f"{np.max(np.abs(run(x) - first)):.0e}")
    for (batch, length), times in SHAPES.items():
        x = features(sizes, batch, length)
        found = medians(interleaved({name: repeated(run, x, times) for name, run in runs.items()}, rounds))
        columns += [f"CPU ms at ({batch}, {length})", "ours takes"]
        for name, timing in found.items():
            rows[name] += [f"{1000 * timing.cpu / times:.1f}", f"{found['ours'].cpu / timing.cpu:.2f}"]
    title = (
        f"ONNX Runtime, one thread, {sizes.num_hidden_layers} layers of {sizes.hidden_size}, equal weights, "
        f"opset {OPSET}, median of {rounds} rounds"
    )
    return report.Table(title, tuple(columns), [tuple(row) for row in rows.values()])


def tflite(sizes, rounds, length=128):
    """Rows: float32 and the quantized files; megabytes, CPU milliseconds for one text, and against float32."""
    from ai_edge_litert.interpreter import Interpreter

    from keras_bert.export import tflite as format

    config = keras_bert.BertConfig(**sizes.config(), initializer_range=0.04)
    bundle = keras_bert.create(config, None, "sequence_classifier", LABELS)
    runs, megabytes, x = {}, {}, features(sizes, 1, length)
    for name, quantize in (("float32", None), ("dynamic int8", "dynamic")):
        with tempfile.TemporaryDirectory() as folder:
            format.write(bundle, folder, inputs="ids", max_length=length, quantize=quantize)
            content = (Path(folder) / format.FILE).read_bytes()
        run = Interpreter(model_content=content, num_threads=1).get_signature_runner("serving_default")
        runs[name], megabytes[name] = repeated(lambda x, run=run: run(**x), x, 1), len(content) / 1e6
    found = medians(interleaved(runs, rounds))
    rows = [
        (
            name,
            f"{megabytes[name]:.1f}",
            f"{megabytes[name] / megabytes['float32']:.2f}",
            f"{1000 * timing.cpu:.1f}",
            f"{found['float32'].cpu / timing.cpu:.2f}",
        )
        for name, timing in found.items()
    ]
    layers = f"{sizes.num_hidden_layers} layers of {sizes.hidden_size}"
    title = f"TFLite, one thread, {layers}, (1, {length}), median of {rounds} rounds"
    return report.Table(title, ("file", "MB", "of float32's", "CPU ms", "faster by"), rows)


def cost(sizes):
    """One row: seconds and memory that writing model.onnx takes, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        new_model(sizes, folder)
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name, "--cost-of", folder], capture_output=True, text=True
        )
    if done.returncode:
        raise RuntimeError(done.stderr)
    wall, cpu, above, weights = map(float, done.stdout.split()[-4:])
    row = ("ours", f"{wall:.1f}", f"{cpu:.1f}", f"{above:.0f}", f"{weights:.0f}", f"{above / weights:.2f}")
    columns = ("exporter", "seconds", "CPU seconds", "MB above the level before", "MB of weights", "of the weights")
    title = f"Writing model.onnx, {sizes.num_hidden_layers} layers of {sizes.hidden_size}"
    return report.Table(title, columns, [row])


def cost_of(folder):
    """Prints seconds, CPU seconds, megabytes above the level before, and megabytes of weights. Needs Linux."""
    from keras_bert.export import onnx

    bundle = keras_bert.load(folder)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here on
    before, started, cpu = memory("VmRSS"), time.perf_counter(), time.process_time()
    onnx.write(bundle, folder)
    weights = sum(weight.value.numpy().nbytes for weight in bundle.model.weights) / 1e6
    print(time.perf_counter() - started, time.process_time() - cpu, memory("VmHWM") - before, weights)


def memory(field):
    """Megabytes of this process, VmRSS now or VmHWM at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) * 1024 / 1e6


PARTS = {  # name -> title of the section, rounds -> table
    "cost": ("Exports: what making ONNX costs", lambda rounds: cost(BASE)),
    "onnx": ("Exports: ONNX Runtime", lambda rounds: beside_torch(Sizes(), rounds)),
    "tflite": ("Exports: TFLite", lambda rounds: tflite(BASE, rounds)),
}


def main():
    parser = report.arguments(__doc__)
    parser.add_argument("--only", choices=PARTS, help="one section instead of all")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cost-of", metavar="FOLDER", help="of writing the ONNX file of this model, and nothing else")
    chosen = parser.parse_args()
    if chosen.cost_of:
        cost_of(chosen.cost_of)
        return
    for part in [chosen.only] if chosen.only else PARTS:
        title, measure = PARTS[part]
        report.publish(title, [measure(chosen.rounds)], chosen.out)


if __name__ == "__main__":
    main()
