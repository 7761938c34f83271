"""LoRA and distillation on SST-2, beside full fine-tuning of the same model: accuracy, sizes, seconds.

    python -m benchmarks.efficient --model MINILM --rows 3000 --out docs/results.md

Each run leaves a folder in --work, and is not done again: stop it whenever you like, and start it again.
"""

import json
from pathlib import Path

from benchmarks.data import SHARED
from benchmarks.report import Table, arguments, publish

TITLE = "LoRA and distillation"
DATA = SHARED / "sst2"


def runs(model, data, work, epochs):
    """name -> (module of the recipe, its settings); the last one learns from the first one's model."""
    from keras_bert.training.recipes import classify, distill

    outs = {name: str(work / name) for name in ("full", "lora", "distilled")}
    shared = {**data, "max_length": 64}
    adapters = {"lora_rank": 8, "learning_rate": 1e-3}
    student = {"epochs": 2 * epochs, "learning_rate": 1e-4}
    return {
        "full": (classify, classify.Classify(model=model, out=outs["full"], epochs=epochs, **shared)),
        "lora": (classify, classify.Classify(model=model, out=outs["lora"], epochs=epochs, **adapters, **shared)),
        "distilled": (distill, distill.Distill(teacher=outs["full"], out=outs["distilled"], **student, **shared)),
    }


def table(work, rows):
    """What is there of the runs."""
    titles = {
        "full": "full fine-tuning",
        "lora": "LoRA, rank 8 on all projections",
        "distilled": "half the blocks, distilled from the first",
    }
    lines = []
    for name, title in titles.items():
        if not (work / name / "metrics.json").is_file():
            continue
        metrics = json.loads((work / name / "metrics.json").read_text(encoding="utf-8"))
        low, high = metrics["test"]["interval"]
        folder = work / name / ("adapter" if name == "lora" else "")
        size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        accuracy = f"{metrics['test']['accuracy']:.3f} ({low:.3f} to {high:.3f})"
        lines.append((title, accuracy, f"{size / 1e6:.1f}", f"{metrics['seconds']:.0f}"))
    columns = ("", "accuracy on dev (95% interval)", "MB of weights to keep", "seconds")
    return Table(f"SST-2, {rows:,} training rows", columns, lines)


def main(words=None):
    parser = arguments(__doc__)
    parser.add_argument("--model", required=True, help="folder of the pretrained model")
    parser.add_argument("--rows", type=int, default=3000, help="training rows, the first of the file")
    parser.add_argument("--epochs", type=int, default=2, help="the student takes twice as many")
    parser.add_argument("--work", type=Path, default=Path("build/efficient"), help="where the runs are kept")
    chosen = parser.parse_args(words)
    chosen.work.mkdir(parents=True, exist_ok=True)
    lines = (DATA / "train.tsv").read_text(encoding="utf-8").split("\n")[: chosen.rows + 1]
    part = chosen.work / f"train-{chosen.rows}.tsv"
    part.write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = {"train": str(part), "test": str(DATA / "dev.tsv")}
    for name, (recipe, settings) in runs(chosen.model, data, chosen.work, chosen.epochs).items():
        if not (chosen.work / name / "metrics.json").is_file():
            recipe.run(settings)
    publish(TITLE, [table(chosen.work, chosen.rows)], chosen.out)


if __name__ == "__main__":
    main()
