"""`keras-bert train TASK`: fine-tuning from files on disk."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Fine-tune a model on labelled files.", no_args_is_help=True)

Settings = Annotated[list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Any field of the recipe.")]
ConfigFile = Annotated[Path | None, typer.Option(metavar="FILE", help="JSON file with fields of the recipe.")]


@app.callback()
def train():
    """Fine-tune a model on labelled files."""


@app.command(
    epilog="Example: keras-bert train classify --model minilm --train train.tsv --dev dev.tsv --out reviews "
    "--set epochs=4"
)
def classify(
    model: Annotated[str | None, typer.Option(metavar="FOLDER", help="The pretrained model.")] = None,
    train: Annotated[str | None, typer.Option(metavar="FILE", help="Labelled .tsv, .csv or .jsonl.")] = None,
    dev: Annotated[str | None, typer.Option(metavar="FILE", help="Decides which epoch is kept.")] = None,
    test: Annotated[str | None, typer.Option(metavar="FILE", help="Scored once, at the end.")] = None,
    out: Annotated[str | None, typer.Option(metavar="FOLDER", help="Where the model and metrics.json go.")] = None,
    config: ConfigFile = None,
    set_: Settings = None,
):
    """Fine-tune a classifier of texts or of pairs of texts.

    Columns are found by their usual names (text, sentence1 and sentence2, label ...); others are named by
    --set text_column=..., pair_column=..., label_column=... Further fields: max_length, batch_size, epochs,
    learning_rate, seed.
    """
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    from keras_bert.training.recipes.classify import Classify, run
    from keras_bert.training.settings import read_settings

    settings = read_settings(Classify, config, set_ or (), model=model, train=train, dev=dev, test=test, out=out)
    metrics = run(settings)
    show_scores(metrics)
    typer.echo(f'Saved to {settings.out}. Ask it: keras-bert predict {settings.out} "a text"')


def show_scores(metrics):
    """Prints accuracy with its interval and the counts per class."""
    from rich.console import Console
    from rich.table import Table

    for split in ("dev", "test"):
        if split not in metrics:
            continue
        scores = metrics[split]
        low, high = scores["interval"]
        title = f"{split}: accuracy {scores['accuracy']:.3f} (95% interval {low:.3f} to {high:.3f})"
        table = Table(title=title, title_justify="left")
        for column in ("label", "examples", "right", "answered"):
            table.add_column(column, justify="left" if column == "label" else "right")
        for label, counts in scores["classes"].items():
            table.add_row(label, *(str(counts[name]) for name in ("examples", "right", "answered")))
        Console().print(table)
    if metrics["truncated"]:
        typer.echo(f"{metrics['truncated']} training texts were longer than max_length and were cut.")
