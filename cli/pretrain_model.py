"""`keras-bert pretrain`: raw text in, a BERT out; from scratch, or from a model that goes on learning."""

from pathlib import Path
from typing import Annotated

import typer

from keras_bert_cli.train_tasks import ConfigFile, Settings


def pretrain(
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...", help="More text files.")] = None,
    corpus: Annotated[str | None, typer.Option(help="python-docs, a text file, or a prepared folder.")] = None,
    held_out: Annotated[str | None, typer.Option(help="The same, to evaluate on; else a part of the corpus.")] = None,
    model: Annotated[str | None, typer.Option("--from", metavar="FOLDER", help="A model to go on from.")] = None,
    out: Annotated[str | None, typer.Option(metavar="FOLDER", help="Where the model and metrics.json go.")] = None,
    objective: Annotated[str | None, typer.Option(help="masked_words, or replaced_tokens (ELECTRA).")] = None,
    minutes: Annotated[float | None, typer.Option(help="How long it may take.")] = None,
    steps: Annotated[int | None, typer.Option(help="Or how many batches.")] = None,
    strategy: Annotated[str | None, typer.Option(help="none, mirrored, multi_worker or tpu (untested).")] = None,
    precision: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoints of a run that ended.")] = False,
    config: ConfigFile = None,
    set_: Settings = None,
):
    """Train a vocabulary and a BERT on raw text, or pretrain a model further.

    Text files are UTF-8, with a blank line between documents. python-docs is the documentation inside Python.

    Example: keras-bert pretrain --corpus python-docs --minutes 2 --out pretrained
    """
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    from keras_bert.training.recipes.pretrain import Pretrain, run
    from keras_bert.training.settings import read_settings

    paths = tuple(str(path) for path in ([corpus] if corpus else []) + (files or []))
    given = {"corpus": corpus if len(paths) < 2 and not files else paths, "minutes": minutes, "steps": steps}
    given |= {"held_out": held_out, "model": model, "objective": objective}
    given |= {"strategy": strategy, "precision": precision, "resume": resume or None}
    settings = read_settings(Pretrain, config, set_ or (), out=out, **given)
    metrics = run(settings)
    show_results(metrics)
    typer.echo(f"Saved to {settings.out}. Look at it: keras-bert inspect {settings.out}")


def show_results(metrics):
    """Prints what the held-out documents showed before and after."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"held-out documents, {metrics['steps']} steps", title_justify="left")
    for column in ("", "before", "after"):
        table.add_column(column, justify="right" if column else "left")
    for name, before in metrics["before"].items():
        interval = ""
        if name == "nsp_accuracy":
            low, high = metrics["after"]["nsp_interval"]
            interval = f" (95% interval {low:.3f} to {high:.3f})"
        table.add_row(name.replace("_", " "), f"{before:.3f}", f"{metrics['after'][name]:.3f}{interval}")
    Console().print(table)
