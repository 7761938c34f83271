"""`keras-bert inspect`: what a checkpoint is and holds."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer


def inspect(
    source: Annotated[
        Path,
        typer.Argument(metavar="SOURCE", help="A folder or checkpoint of any kind that `convert` reads."),
    ],
):
    """Show what a model is: its kind, sizes, heads, labels, parameters, tokenizer, and what in its files is left out.

    Every weight is read on the way.

    Example: keras-bert inspect minilm
    """
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    import keras_bert
    from keras_bert.checkpoint import sources

    bert = keras_bert.load(source)
    found = {"kind": sources.kind_of(source), "heads in the files": ", ".join(sources.heads_in(sources.read(source)))}
    table = Table(show_header=False)
    for name, value in (found | describe(bert)).items():
        table.add_row(name, escape(str(value)))
    Console().print(table)


def describe(bert):
    """Name to value, for people."""
    found = {"head": bert.head or "none: a bare encoder", **bert.options}
    if bert.labels is not None:
        found["labels"] = ", ".join(bert.labels)
    found["parameters"] = f"{bert.model.count_params():,}"
    found |= {name: value for name, value in dataclasses.asdict(bert.config).items() if value is not None}
    if bert.tokenizer is None:
        found["tokenizer"] = "none"
    else:
        case = "lower-cased" if bert.tokenizer.lowercase else "cased"
        found["tokenizer"] = f"WordPiece, {bert.tokenizer.vocab_size:,} tokens, {case}"
    for name in ("unused", "ignored"):
        if getattr(bert.report, name):
            found[f"{name} in the files"] = ", ".join(getattr(bert.report, name))
    return found
