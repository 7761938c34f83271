"""What an evaluation leaves behind: metrics.json, the errors as a table, and pictures."""

import csv
import dataclasses
import json
from importlib.util import find_spec

import numpy as np

from keras_bert.files import replace_folder
from keras_bert.training.run_folder import METRICS


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """How a model did on a file.

    Args:
        metrics: dict of scores.
        errors: list of dicts with equal keys, the gravest first: what was wrong, with its text and scores.
        labels: names of the classes, or None.
        confusion: (C, C) int, how often class i was answered as j, or None.
        curve: list of (mean probability, share right, count), or None.
    """

    metrics: dict
    errors: list
    labels: list | None = None
    confusion: np.ndarray | None = None
    curve: list | None = None


def write_report(evaluation, out, plots=False):
    """Writes metrics.json and errors.tsv into a folder, with `plots` also confusion.png and calibration.png.

    Raises:
        ValueError: `plots` are asked for without matplotlib.
    """
    if plots:
        check_plots()
    with replace_folder(out) as folder:
        text = json.dumps(evaluation.metrics, indent=2, ensure_ascii=False) + "\n"
        (folder / METRICS).write_text(text, encoding="utf-8")
        with open(folder / "errors.tsv", "w", encoding="utf-8", newline="") as file:
            write_table(evaluation.errors, file)
        if plots and evaluation.confusion is not None:
            draw_confusion(evaluation.confusion, evaluation.labels, folder / "confusion.png")
        if plots and evaluation.curve:
            draw_calibration(evaluation.curve, folder / "calibration.png")


def write_table(rows, file):
    """Writes dicts as TSV with a header; tabs and line ends in a cell become blanks, floats have 4 digits."""
    writer = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n")
    for i, row in enumerate(rows):
        if not i:
            writer.writerow(row)
        writer.writerow([_cell(value) for value in row.values()])


def _cell(value):
    if isinstance(value, float | np.floating):
        return f"{value:.4f}"
    return " ".join(str(value).replace("\t", " ").splitlines())


def has_plots():
    """Whether matplotlib is there."""
    return find_spec("matplotlib") is not None


def check_plots():
    """Refuses where matplotlib is missing."""
    if not has_plots():
        raise ValueError('Plots need matplotlib: pip install "keras3-bert[plot]".')


def draw_confusion(confusion, labels, path):
    """Draws how often each class (rows) was answered as which (columns), shaded by the share of the row."""
    from matplotlib.figure import Figure

    count = len(labels)
    figure = Figure(figsize=(2 + 0.5 * count, 1.6 + 0.5 * count), layout="constrained")
    axes = figure.subplots()
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(count), labels, rotation=45, ha="right")
    axes.set_yticks(range(count), labels)
    axes.set(xlabel="answered", ylabel="true")
    if count <= 20:
        for i in range(count):
            for j in range(count):
                colour = "white" if shares[i, j] > 0.5 else "black"
                axes.text(j, i, str(confusion[i, j]), ha="center", va="center", color=colour, fontsize=8)
    figure.savefig(path, dpi=120)


def draw_calibration(curve, path):
    """Draws the share of right answers over their probability; bars show how many answers a bin has."""
    from matplotlib.figure import Figure

    said, right, counts = np.array(curve).T
    figure = Figure(figsize=(4.5, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.bar(said, counts / counts.sum(), width=0.05, color="lightgrey", label="share of answers")
    axes.plot([0, 1], [0, 1], color="grey", linestyle=":")
    axes.plot(said, right, marker="o", label="right answers")
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability of the answer", ylabel="share right")
    axes.legend(loc="upper left")
    figure.savefig(path, dpi=120)


def draw_curves(log, curve, path):
    """Draws a training: losses, accuracies, learning rate and gradient norm over its steps.

    Args:
        log: list of dicts as `read_log` gives them; curve: list of {"step", "train", "held_out"}.
    """
    from matplotlib.figure import Figure

    lines = [line for line in log if "held_out" not in line]
    names = list(curve[0]["held_out"])
    panels = [
        ("loss", [name for name in names if name.endswith("_loss")]),
        ("accuracy", [name for name in names if name.endswith("_accuracy")]),
        ("learning rate", ["learning_rate"]),
        ("gradient norm", ["gradient_norm"]),
    ]
    figure = Figure(figsize=(10, 7), layout="constrained")
    for axes, (title, shown) in zip(figure.subplots(2, 2).flat, panels, strict=True):
        for number, name in enumerate(shown):
            colour, label = f"C{number}", name.partition("_")[0] if name in names else None
            axes.plot([line["step"] for line in lines], [line[name] for line in lines], color=colour, label=label)
            if name in names:
                points = [(point["step"], point["held_out"][name]) for point in curve]
                axes.plot(*zip(*points, strict=True), "o--", color=colour, label=f"{label}, held out")
        axes.set(title=title, xlabel="step")
        if shown[0] in names:
            axes.legend()
    figure.savefig(path, dpi=120)
