"""What pretraining on little Chinese text is worth: 1,000 labelled reviews, with it and from scratch.

    python -m benchmarks.chinese_pretraining --steps 7500 --out docs/results.md

Pretrains 4 layers of 256 on novels, encyclopedia paragraphs and reviews without their labels, goes on with the reviews
alone, and fine-tunes that and the same model with fresh weights on 1,000 labels, three seeds each. Each run leaves a
folder in --work, and is not done again; pretraining goes on at its last checkpoint: stop it whenever you like, and
start it again.
"""

import csv
import json
import statistics
from pathlib import Path

import keras

import keras_bert
from benchmarks.data import SHARED
from benchmarks.report import Table, arguments, publish
from keras_bert.training.recipes import classify, pretrain

TITLE = "Pretraining on Chinese text"
TEXTS, REVIEWS = SHARED / "pretrain_zh", SHARED / "chnsenticorp"
LENGTH = 128
SIZES = {"vocab_size": 12000, "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4}
RATES = (1e-4, 3e-4)  # of fine-tuning; each model is given the better one
SEEDS = (0, 1, 2)
MODELS = {"pretrained": "pretrained", "scratch": "from scratch"}


def write_reviews(path):
    """Writes the training reviews without labels, each a document."""
    with open(REVIEWS / "train.tsv", encoding="utf-8", newline="") as file:
        texts = [row["text_a"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    path.write_text("\n\n".join(" ".join(text.split()) for text in texts) + "\n", encoding="utf-8")


def write_labelled(path, rows):
    """Writes the first rows of the labelled reviews."""
    lines = (REVIEWS / "train.tsv").read_text(encoding="utf-8").split("\n")[: rows + 1]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def pretraining(work, steps):
    """The settings of the pretraining runs: short rows of all texts, then the reviews alone in rows of full length."""
    usual = {"learning_rate": 1e-3, "precision": "bfloat16", "resume": True}
    everything = pretrain.Pretrain(
        out=str(work / "everything"),
        corpus=(*(str(path) for path in sorted(TEXTS.glob("*.txt"))), str(work / "reviews.txt")),
        **SIZES,
        max_length=LENGTH // 2,
        pairing="full_sentences",
        steps=steps // 3,
        **usual,
    )
    reviews = pretrain.Pretrain(
        out=str(work / "pretrained"),
        corpus=str(work / "reviews.txt"),
        model=everything.out,
        max_length=LENGTH,
        pairing="single_documents",
        row_sequences=4,
        steps=steps - steps // 3,
        **usual,
    )
    return everything, reviews


def write_fresh(work, seed):
    """Writes the same model with fresh weights."""
    pretrained = keras_bert.load(work / "pretrained")
    keras.utils.set_random_seed(seed)
    fresh = keras_bert.create(pretrained.config, pretrained.tokenizer, pretrained.head)
    keras_bert.save(fresh, work / f"scratch-{seed}")


def fine_tuning(work, name, rate, seed, epochs):
    """The settings of a fine-tuning run: the dev file is scored once, after the last epoch."""
    model = work / ("pretrained" if name == "pretrained" else f"scratch-{seed}")
    return classify.Classify(
        model=str(model),
        train=str(work / "labelled.tsv"),
        test=str(REVIEWS / "dev.tsv"),
        out=str(work / f"{name}-{rate:g}-{seed}-tuned"),
        max_length=LENGTH,
        epochs=epochs,
        learning_rate=rate,
        seed=seed,
    )


def metrics_of(folder):
    """What a run left, or None where it has not ended."""
    path = Path(folder) / "metrics.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def accuracy_table(work, steps, epochs, rows):
    """Dev accuracy of each model at the rate that suits it better."""
    lines, means = [], {}
    for name, title in MODELS.items():
        found = {}
        for rate in RATES:
            runs = [metrics_of(fine_tuning(work, name, rate, seed, epochs).out) for seed in SEEDS]
            if None not in runs:
                found[rate] = runs
        if len(found) < len(RATES):
            continue
        accuracies = {rate: [run["test"]["accuracy"] for run in runs] for rate, runs in found.items()}
        rate = max(accuracies, key=lambda rate: statistics.mean(accuracies[rate]))
        means[name] = statistics.mean(accuracies[rate])
        seconds = statistics.mean(run["seconds"] for run in found[rate])
        each = ", ".join(f"{accuracy:.3f}" for accuracy in accuracies[rate])
        lines.append((title, f"{means[name]:.3f}", each, f"{rate:g}", f"{seconds:.0f}"))
    if len(means) == len(MODELS):
        lines.append(("points more", f"{100 * (means['pretrained'] - means['scratch']):.1f}", "", "", ""))
    columns = ("", "dev accuracy, mean", "each seed", "learning rate", "seconds a run")
    command = f"`python -m benchmarks.chinese_pretraining --steps {steps} --rows {rows} --epochs {epochs}`"
    sizes = ", ".join(f"{name} {value:,}" for name, value in SIZES.items())
    return Table(f"ChnSentiCorp, {rows:,} labels, {epochs} epochs, {sizes}: {command}", columns, lines)


def curve_table(settings, metrics):
    """The losses of a pretraining run along the way."""
    lines = [
        (
            f"{point['step']:,}",
            f"{point['train']['mlm_loss']:.3f}",
            f"{point['held_out']['mlm_loss']:.3f}",
            f"{point['held_out']['mlm_accuracy']:.3f}",
        )
        for point in metrics["curve"]
    ]
    columns = ("step", "training loss of masked words", "held-out loss", "held-out accuracy")
    packed = f", up to {settings.row_sequences} texts each" if settings.row_sequences > 1 else ""
    rows = f"{settings.precision}, batches of {settings.batch_size} rows of {settings.max_length} tokens{packed}"
    title = f"{Path(settings.out).name}, {settings.pairing}, {rows}, {metrics['seconds'] / 3600:.2f} hours"
    return Table(title, columns, lines)


def main(words=None):
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=7500, help="of pretraining, two thirds on the reviews alone")
    parser.add_argument("--rows", type=int, default=1000, help="labelled rows, the first of the file")
    parser.add_argument("--epochs", type=int, default=10, help="of fine-tuning")
    parser.add_argument("--work", type=Path, default=Path("runs/chinese_pretraining"), help="where the runs are kept")
    chosen = parser.parse_args(words)
    work = chosen.work
    work.mkdir(parents=True, exist_ok=True)
    write_reviews(work / "reviews.txt")
    write_labelled(work / "labelled.tsv", chosen.rows)
    stages = pretraining(work, chosen.steps)
    for stage in stages:
        if metrics_of(stage.out) is None:
            pretrain.run(stage)
    for seed in SEEDS:
        if not (work / f"scratch-{seed}").is_dir():
            write_fresh(work, seed)
        for name in MODELS:
            for rate in RATES:
                tuning = fine_tuning(work, name, rate, seed, chosen.epochs)
                if metrics_of(tuning.out) is None:
                    classify.run(tuning)
    accuracies = accuracy_table(work, chosen.steps, chosen.epochs, chosen.rows)
    publish(TITLE, [accuracies, *(curve_table(stage, metrics_of(stage.out)) for stage in stages)], chosen.out)


if __name__ == "__main__":
    main()
