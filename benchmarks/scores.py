"""Fine-tuned scores beside those of `transformers` and torch: the same model, data and recipe, several seeds.

    python -m benchmarks.scores --model MINILM --tasks rte mrpc --seeds 0 1 2 3 4 --out docs/results.md

Each run of a task, a seed and a side leaves a file in --work, and is not done again: stop it whenever you like, and
start it again. The table has what is there.
"""

import json
import random
import time
from pathlib import Path

import numpy as np

from benchmarks.data import SHARED
from benchmarks.report import Table, arguments, publish
from keras_bert.files import replace_file
from keras_bert.training.metrics import classification_metrics, matthews, paired_bootstrap, spearman
from keras_bert.training.metrics.classification import confusion_matrix

# train and dev file, columns of text, pair and label, and what counts
TASKS = {
    "sst2": ("sst2/train.tsv", "sst2/dev.tsv", {}, "accuracy"),
    "stsb": ("stsb/train.tsv", "stsb/dev.tsv", {"label_column": "score"}, "spearman"),
    "mrpc": ("mrpc/train.tsv", "mrpc/test.tsv", {}, "f1"),
    "rte": ("rte/train.tsv", "rte/dev.tsv", {}, "accuracy"),
    "cola": ("cola/train.tsv", "cola/dev.tsv", {"text_column": "4", "label_column": "2"}, "matthews"),
}
RECIPE = {"max_length": 128, "batch_size": 32, "epochs": 3, "learning_rate": 5e-5}
SIDES = ("ours", "transformers")


def settings(task, model, seed):
    """The recipe's settings; no dev file, so that both sides keep the last epoch."""
    from keras_bert.training.recipes.classify import Classify

    train, dev, columns, score = TASKS[task]
    kind = "regression" if score == "spearman" else "single"
    paths = {"model": str(model), "train": str(SHARED / train), "test": str(SHARED / dev), "out": "unused"}
    return Classify(**paths, kind=kind, seed=seed, **columns, **RECIPE)


def data_of(config):
    """The examples of both splits, the classes, and what is right."""
    from keras_bert.training.recipes import classify

    files = {name: classify.read(config, getattr(config, name)) for name in ("train", "test")}
    labels = classify.labels_of(config, files["train"])
    return files, labels, {name: classify.targets_of(config, examples, labels) for name, examples in files.items()}


def ours(config):
    """Answers to the dev examples, (n,) numbers or classes."""
    from keras_bert.training.batches import predict_rows, tokenize_examples
    from keras_bert.training.recipes import classify

    files, labels, _ = data_of(config)
    bundle, _ = classify.train(config, {"train": files["train"]}, labels)
    rows = tokenize_examples(files["test"].texts, files["test"].pairs, bundle.tokenizer, config.max_length)
    outputs = np.stack(predict_rows(bundle.model, rows))
    return outputs if outputs.ndim == 1 else outputs.argmax(axis=1)


def transformers(config):
    """The same by torch: AdamW without decay of vectors, a tenth of warm-up, clipping, padding to a batch's longest."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    files, labels, right = data_of(config)
    torch.manual_seed(config.seed)
    random.seed(config.seed)
    tokenizer = AutoTokenizer.from_pretrained(config.model)
    model = AutoModelForSequenceClassification.from_pretrained(config.model, num_labels=len(labels) if labels else 1)

    def features(examples, chosen):
        parts = [[texts[i] for i in chosen] for texts in (examples.texts, examples.pairs) if texts]
        return tokenizer(*parts, truncation=True, max_length=config.max_length, padding=True, return_tensors="pt")

    decayed = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, eps=1e-6)
    count, size = len(files["train"]), config.batch_size
    total = -(-count // size) * config.epochs
    warmup = total // 10
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / max(1, warmup), (total - step) / (total - warmup))
    )
    targets = torch.tensor(right["train"])
    loss_of = torch.nn.CrossEntropyLoss() if labels else torch.nn.MSELoss()
    model.train()
    for _ in range(config.epochs):
        order = random.sample(range(count), count)
        for start in range(0, count, size):
            chosen = order[start : start + size]
            logits = model(**features(files["train"], chosen)).logits
            y = targets[chosen]
            loss = loss_of(logits, y.long()) if labels else loss_of(logits.squeeze(-1), y)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    model.eval()
    found = []
    with torch.no_grad():
        for start in range(0, len(files["test"]), 64):
            chosen = range(start, min(start + 64, len(files["test"])))
            found.append(model(**features(files["test"], chosen)).logits.numpy())
    outputs = np.concatenate(found)
    return outputs.argmax(axis=1) if labels else outputs[:, 0]


def run(task, model, seed, side, work):
    """Trains and answers, unless that was done already."""
    path = Path(work) / f"{task}-{seed}-{side}.json"
    if path.exists():
        return
    started = time.monotonic()
    answers = {"ours": ours, "transformers": transformers}[side](settings(task, model, seed))
    found = {"answers": answers.tolist(), "seconds": round(time.monotonic() - started)}
    with replace_file(path) as temporary:
        Path(temporary).write_text(json.dumps(found), encoding="utf-8")


def scorer(task, right, labels):
    """(indices, answers) -> the task's score."""
    name = TASKS[task][-1]

    def score(drawn, answers):
        true, given = np.asarray(right)[drawn], np.asarray(answers)[drawn]
        if name == "spearman":
            return spearman(true, given)
        if name == "matthews":
            return matthews(confusion_matrix(true, given, len(labels)))
        return classification_metrics(true, given, labels)[name]

    return score


def rows(model, work):
    """A row for each task of which both sides have runs."""
    for task in TASKS:
        found = {side: sorted(Path(work).glob(f"{task}-*-{side}.json")) for side in SIDES}
        if not all(found.values()):
            continue
        _, labels, right = data_of(settings(task, model, 0))
        runs = {side: [json.loads(path.read_text()) for path in paths] for side, paths in found.items()}
        score, every = scorer(task, right["test"], labels), np.arange(len(right["test"]))
        scores = {side: [score(every, one["answers"]) for one in runs[side]] for side in SIDES}
        answers = {side: [np.array(one["answers"]) for one in runs[side]] for side in SIDES}
        low, high = paired_bootstrap(score, answers["ours"], answers["transformers"])
        shown = [
            f"{np.mean(found):.4f} ({len(found)} seeds, {min(found):.3f} to {max(found):.3f})"
            for found in (scores[side] for side in SIDES)
        ]
        yield (
            f"{task}, {TASKS[task][-1]}",
            *shown,
            f"{np.mean(scores['ours']) - np.mean(scores['transformers']):+.4f} ({low:+.4f} to {high:+.4f})",
            *(f"{np.median([one['seconds'] for one in runs[side]]):.0f}" for side in SIDES),
        )


def main():
    parser = arguments("Fine-tuned scores beside those of transformers and torch.")
    parser.add_argument("--model", required=True, type=Path, help="Hugging Face folder of the pretrained model")
    parser.add_argument("--tasks", nargs="*", default=[], choices=list(TASKS), help="what to run; none for the table")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--work", type=Path, default=Path("build/scores"), help="where each run's answers stay")
    options = parser.parse_args()
    for seed in options.seeds:
        for task in options.tasks:
            for side in SIDES:
                run(task, options.model, seed, side, options.work)
    columns = ("task", *SIDES, "difference (95% paired bootstrap)", *(f"seconds, {side}" for side in SIDES))
    found = list(rows(options.model, options.work))
    if found:
        recipe = ", ".join(f"{name} {value}" for name, value in RECIPE.items())
        publish("Scores", [Table(f"Fine-tuned {options.model.name}: {recipe}", columns, found)], options.out)


if __name__ == "__main__":
    main()
