"""`keras-bert inspect`: what a folder holds."""

from pathlib import Path
from typing import Annotated

import typer


def inspect(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A saved model, or a Hugging Face folder.")]):
    """Show a model's sizes, head, labels, parameters and tokenizer; every weight is read on the way.

    Example: keras-bert inspect minilm
    """
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    import keras_bert

    bert = keras_bert.load(folder)
    table = Table(show_header=False)
    for name, value in describe(bert).items():
        table.add_row(name, escape(str(value)))
    Console().print(table)


def describe(bert):
    """Name to value, for people."""
    found = {"head": bert.head or "none: a bare encoder", **bert.options}
    if bert.labels is not None:
        found["labels"] = ", ".join(bert.labels)
    found["parameters"] = f"{bert.model.count_params():,}"
    found |= {name: value for name, value in bert.config.to_dict().items() if value is not None}
    if bert.tokenizer is None:
        found["tokenizer"] = "none"
    else:
        case = "lower-cased" if bert.tokenizer.lowercase else "cased"
        found["tokenizer"] = f"WordPiece, {bert.tokenizer.vocab_size:,} tokens, {case}"
    for name in ("unused", "ignored"):
        if getattr(bert.report, name):
            found[f"{name} in the files"] = ", ".join(getattr(bert.report, name))
    return found
