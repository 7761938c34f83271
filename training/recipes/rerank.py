"""Recipe: a pretrained model and queries with passages in, a cross-encoder that scores passages out."""

import dataclasses
import time

import numpy as np

from keras_bert.training.batches import predict_rows, steps_per_epoch, tokenize_examples, training_batches
from keras_bert.training.examples import label_numbers, read_examples
from keras_bert.training.fine_tuning import check_settings, finish, fit, load_for, read_splits, row_length
from keras_bert.training.losses import graded_cross_entropy
from keras_bert.training.metrics import ranking_metrics, spearman
from keras_bert.training.report import Evaluation

USUAL_LENGTH = 256


@dataclasses.dataclass(frozen=True)
class Rerank:
    """What to fine-tune on and how; fields that are not named here are those of `fine_tuning`.

    Args:
        train, dev, test: .tsv, .csv or .jsonl of queries, passages, and how well each answers its query: numbers of at
            least 0, of which the highest of `train` stands for a full answer.
        query_column, passage_column, label_column: names or numbers of columns; "" for the usual names.
    """

    model: str
    train: str
    out: str
    dev: str = ""
    test: str = ""
    query_column: str = ""
    passage_column: str = ""
    label_column: str = ""
    max_length: int = 0
    batch_size: int = 32
    epochs: int = 2
    learning_rate: float = 3e-5
    lora_rank: int = 0
    patience: int = 0
    seed: int = 0

    def __post_init__(self):
        check_settings(self)


def run(config):
    """Trains, keeps the best weights, scores them, and writes the model and its metrics.

    Returns:
        dict, as in `metrics.json`: "dev" and "test", `ranking_metrics` of the passages that each query has in the file,
        and "spearman" of scores and grades; "epochs", the logs of each; "kept_epoch", counted from 1; "truncated", how
        many training rows were cut; "seconds".
    """
    started = time.monotonic()
    files = read_splits(config, lambda path: read(config, path))
    grades = {name: grades_of(examples) for name, examples in files.items()}
    highest = grades["train"].max()
    bundle, length = load_for(config, "reranker", USUAL_LENGTH)
    rows = {name: tokenize_examples(e.texts, e.pairs, bundle.tokenizer, length) for name, e in files.items()}
    data = training_batches(
        rows["train"],
        np.minimum(grades["train"] / highest, 1.0),
        batch_size=config.batch_size,
        seed=config.seed,
        epochs=config.epochs,
    )

    def score(name):
        return scores_of(files[name].texts, grades[name], np.stack(predict_rows(bundle.model, rows[name])))

    epochs, kept = fit(
        config,
        bundle.model,
        data,
        steps_per_epoch(rows["train"], config.batch_size),
        title="rerank",
        loss=graded_cross_entropy,
        score=(lambda: score("dev")) if "dev" in files else None,
        best="ndcg@10",
    )
    found = {name: score(name) for name in files if name != "train"}
    more = {"epochs": epochs, "kept_epoch": kept, "truncated": rows["train"].truncated}
    return finish(config, bundle, started, {**found, **more})


def read(config, path):
    """The examples of a file; a passage for each query."""
    columns = (config.query_column, config.passage_column, config.label_column)
    examples = read_examples(path, *columns)
    if examples.pairs is None:
        raise ValueError(f"{path} must have a column with passages beside the queries. Say which: passage_column=...")
    return examples


def grades_of(examples):
    """How well each passage answers, (n,) float32 of at least 0, of which one is above."""
    grades = label_numbers(examples)
    low = int(np.argmin(grades))
    if grades[low] < 0:
        place = f"{examples.path} line {examples.lines[low]}"
        raise ValueError(f"{place}: the label must be at least 0, got {grades[low]:g}.")
    if not grades.max() > 0 or grades.min() == grades.max():
        raise ValueError(f"{examples.path} must hold at least two different labels, got only {grades[low]:g}.")
    return grades


def scores_of(queries, grades, scores):
    """Ranks the passages of each query by their scores, equal ones in the file's order."""
    members_of = by_query(queries)
    rankings = [sorted(members, key=lambda i: -scores[i]) for members in members_of.values()]
    relevant = [{i: float(grades[i]) for i in members if grades[i] > 0} for members in members_of.values()]
    return ranking_metrics(rankings, relevant) | {"spearman": round(spearman(grades, scores), 4)}


def by_query(queries):
    """The numbers of each query's examples, in the file's order."""
    found = {}
    for i, query in enumerate(queries):
        found.setdefault(query, []).append(i)
    return found


def evaluate(config, bundle, path):
    """Scores a model on a file of queries and passages: an `Evaluation`, whose errors are pairs ranked wrongly."""
    examples = read(config, path)
    grades = grades_of(examples)
    length = row_length(config, bundle, USUAL_LENGTH)
    rows = tokenize_examples(examples.texts, examples.pairs, bundle.tokenizer, length)
    scores = np.stack(predict_rows(bundle.model, rows))
    errors = []
    for query, members in by_query(examples.texts).items():
        first = max(members, key=lambda i: scores[i])
        right = max(members, key=lambda i: (grades[i], scores[i]))
        if grades[right] > grades[first]:
            shown = {"line": examples.lines[first], "query": query, "first": examples.pairs[first]}
            errors.append(shown | {"better": examples.pairs[right], "score": scores[first] - scores[right]})
    errors.sort(key=lambda row: -row["score"])
    return Evaluation(scores_of(examples.texts, grades, scores), errors)
