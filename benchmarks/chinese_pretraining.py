"""What pretraining on little Chinese text is worth: 1,000 labelled reviews, with it and from scratch.

    python -m benchmarks.chinese_pretraining --steps 10000 --out docs/results.md

Pretrains 4 layers of 256 on novels, encyclopedia paragraphs and reviews without their labels, goes on with the reviews
alone, then with whole words of them masked, and fine-tunes that and the same model with fresh weights on 1,000 labels,
three seeds each. The dev file chose the learning rate and the stages of pretraining; nothing was chosen by the test
file. Each run leaves a folder in --work, and is not done again; pretraining goes on at its last checkpoint: stop it
whenever you like, and start it again.
"""

import csv
import dataclasses
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
    """The settings of the stages: short rows of all texts; full rows of the reviews; whole words of them masked."""
    usual = {"learning_rate": 1e-3, "precision": "bfloat16", "resume": True}
    everything = pretrain.Pretrain(
        out=str(work / "everything"),
        corpus=(*(str(path) for path in sorted(TEXTS.glob("*.txt"))), str(work / "reviews.txt")),
        **SIZES,
        max_length=LENGTH // 2,
        pairing="full_sentences",
        steps=steps // 4,
        **usual,
    )
    reviews = pretrain.Pretrain(
        out=str(work / "reviews"),
        corpus=str(work / "reviews.txt"),
        model=everything.out,
        max_length=LENGTH,
        pairing="single_documents",
        row_sequences=4,
        steps=steps // 2,
        **usual,
    )
    words = dataclasses.replace(
        reviews,
        out=str(work / "pretrained"),
        model=reviews.out,
        masking="words",
        segmenter="jieba",
        steps=steps // 4,
        learning_rate=5e-4,
    )
    return everything, reviews, words


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


def test_accuracy(tuning):
    """The share of the test file that a fine-tuned model gets right."""
    return classify.evaluate(tuning, keras_bert.load(tuning.out), str(REVIEWS / "test.tsv")).metrics["accuracy"]


def shown(accuracies):
    """A cell for their mean and one for each."""
    return f"{statistics.mean(accuracies):.3f}", ", ".join(f"{accuracy:.3f}" for accuracy in accuracies)


def accuracy_table(work, steps, epochs, rows):
    """Accuracy of each model at the rate that gives it the better dev accuracy."""
    lines, means = [], []
    for name, title in MODELS.items():
        tunings = {rate: [fine_tuning(work, name, rate, seed, epochs) for seed in SEEDS] for rate in RATES}
        found = {rate: [metrics_of(tuning.out) for tuning in tunings[rate]] for rate in RATES}
        dev = {rate: [run["test"]["accuracy"] for run in found[rate]] for rate in RATES}
        rate = max(RATES, key=lambda rate: statistics.mean(dev[rate]))
        test = [test_accuracy(tuning) for tuning in tunings[rate]]
        seconds = statistics.mean(run["seconds"] for run in found[rate])
        means.append((statistics.mean(dev[rate]), statistics.mean(test)))
        lines.append((title, *shown(dev[rate]), *shown(test), f"{rate:g}", f"{seconds:.0f}"))
    more = [f"{100 * (pretrained - fresh):.1f}" for pretrained, fresh in zip(*means, strict=True)]
    lines.append(("points more", more[0], "", more[1], "", "", ""))
    columns = ("", "dev accuracy", "each seed", "test accuracy", "each seed", "learning rate", "seconds a run")
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
    rows = f"batches of {settings.batch_size} rows of {settings.max_length} tokens{packed}"
    kind = f"{settings.pairing}, {settings.masking} masked, {settings.precision}, {rows}"
    title = f"{Path(settings.out).name}: {kind}, {metrics['seconds'] / 3600:.2f} hours"
    return Table(title, columns, lines)


def main(words=None):
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=10000, help="of pretraining, in all stages")
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
