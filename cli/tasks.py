"""The tasks that can be trained and evaluated: where their recipes are, and what to say of them."""

import dataclasses
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

Settings = Annotated[list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Any field of the recipe.")]


@dataclasses.dataclass(frozen=True)
class Task:
    """A task on the command line.

    Args:
        settings: the name of its recipe's dataclass, in `keras_bert.training.recipes`.
        heads: what a model must have to be evaluated.
        does: what `train` does, in a sentence.
        reads: what its files are.
        fields: further fields of the recipe, beside those that all have.
    """

    settings: str
    heads: tuple[str, ...]
    does: str
    reads: str
    fields: str = ""


TASKS = {
    "classify": Task(
        "Classify",
        ("sequence_classifier", "sequence_regressor"),
        "Fine-tune a classifier of texts or of pairs of texts, or a regressor.",
        "Labelled .tsv, .csv or .jsonl; columns are found by their usual names (text, sentence1, sentence2, label).",
        "kind (single, multiple, regression), dev_share, folds, stride, packed, balanced, layer_decay, "
        "text_column, pair_column, label_column",
    ),
    "tag": Task(
        "Tag",
        ("token_classifier",),
        "Fine-tune a tagger of words, such as names of persons and places.",
        "A word and its tag a line, a blank line between sentences; tags in IOB1, BIO, BMES or BIOES.",
    ),
    "answer": Task(
        "Answer",
        ("span_extractor",),
        "Fine-tune an extractor of answers from contexts.",
        "JSON in the layout of SQuAD 1.1, SQuAD 2.0 or CMRC 2018.",
        "stride, max_answer_tokens, metric (squad, cmrc)",
    ),
    "choose": Task(
        "Choose",
        ("multiple_choice",),
        "Fine-tune a chooser among several second texts.",
        "JSONL with text, choices and label, or tables with choice0, choice1, ...",
    ),
    "embed": Task(
        "Embed",
        ("sentence_embedder",),
        "Fine-tune an embedder, for search and similarity.",
        ".tsv, .csv or .jsonl of pairs, of anchor, positive and negative, or of pairs with a score.",
        "pooling, dimensions (such as 64,128), positives, anchor_column, positive_column, score_column",
    ),
    "rerank": Task(
        "Rerank",
        ("reranker",),
        "Fine-tune a cross-encoder that scores passages for a query.",
        ".tsv, .csv or .jsonl with query, passage and label.",
        "query_column, passage_column, label_column",
    ),
}


def recipe(task):
    """The module of a task's recipe, and its settings' dataclass."""
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    module = import_module(f"keras_bert.training.recipes.{task}")
    return module, getattr(module, TASKS[task].settings)


def show_scores(title, scores):
    """Prints scores as a table, and under it those of classes, types of entities or the like, a line each."""
    from rich.console import Console
    from rich.table import Table

    console, table = Console(), Table(title=title, title_justify="left")
    table.add_column("score")
    table.add_column("", justify="right")
    parts = []
    for name, value in scores.items():
        if isinstance(value, dict) and value and all(isinstance(row, dict) for row in value.values()):
            parts.append((name, value))
        elif name == "interval":
            table.add_row("95% interval of accuracy", f"{value[0]:.3f} to {value[1]:.3f}")
        elif isinstance(value, dict):
            table.add_row(name, ", ".join(f"{key} {_number(inner)}" for key, inner in value.items()))
        elif isinstance(value, int | float):
            table.add_row(name, _number(value))
    console.print(table)
    for name, rows in parts:
        columns = list(next(iter(rows.values())))
        table = Table(name, *columns)
        for label, row in rows.items():
            table.add_row(label, *(_number(row[column]) for column in columns))
        console.print(table)


def _number(value):
    return str(value) if isinstance(value, int) else f"{value:.4f}"


def stored_settings(folder):
    """The settings that a model here was trained with; none for a model from elsewhere."""
    from keras_bert.files import read_json
    from keras_bert.training.run_folder import METRICS

    path = Path(folder) / METRICS
    return read_json(path).get("config", {}) if path.is_file() else {}
