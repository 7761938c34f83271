"""`keras-bert train TASK`: fine-tuning from files on disk."""

from pathlib import Path
from typing import Annotated

import typer

from keras_bert_cli.tasks import TASKS, Settings, recipe, show_scores

app = typer.Typer(help="Fine-tune a model on files.", no_args_is_help=True)

ConfigFile = Annotated[Path | None, typer.Option(metavar="FILE", help="JSON file with fields of the recipe.")]


@app.callback()
def train():
    """Fine-tune a model on files."""


def command(task):
    """The command of one task."""

    def train_task(
        model: Annotated[str | None, typer.Option(metavar="FOLDER", help="The pretrained model.")] = None,
        train: Annotated[str | None, typer.Option(metavar="FILE", help="What to learn from.")] = None,
        dev: Annotated[str | None, typer.Option(metavar="FILE", help="Decides which epoch is kept.")] = None,
        test: Annotated[str | None, typer.Option(metavar="FILE", help="Scored once, at the end.")] = None,
        out: Annotated[str | None, typer.Option(metavar="FOLDER", help="Where the model and metrics.json go.")] = None,
        config: ConfigFile = None,
        set_: Settings = None,
    ):
        module, settings = recipe(task)
        from keras_bert.training.settings import read_settings

        chosen = read_settings(settings, config, set_ or (), model=model, train=train, dev=dev, test=test, out=out)
        show_run(module.run(chosen))
        typer.echo(f"Saved to {chosen.out}. Ask it: keras-bert predict {chosen.out} ...")

    said = TASKS[task]
    shared = "max_length, batch_size, epochs, learning_rate, lora_rank, patience, seed"
    fields = ", ".join(filter(None, (said.fields, shared)))
    train_task.__doc__ = f"{said.does}\n\n{said.reads}\n\nFields for --set: {fields}."
    return train_task


def show_run(metrics):
    """Prints the scores of the kept weights."""
    for split in ("before", "dev", "test"):
        if split in metrics:
            show_scores(split, metrics[split])
    for fold, scores in enumerate(metrics.get("folds", ())):
        show_scores(f"fold {fold + 1}", {name: value for name, value in scores.items() if name != "classes"})
    if metrics.get("truncated"):
        typer.echo(f"{metrics['truncated']} training texts were longer than max_length and were cut.")
    if "padding" in metrics:
        shares = metrics["padding"]
        typer.echo(f"Packed rows had {shares['packed']:.1%} padding, rows of their own {shares['unpacked']:.1%}.")
    for split, found in metrics.get("unmatched", {}).items():
        if found or metrics["moved"][split]:
            moved = metrics["moved"][split]
            typer.echo(f"{split}: {moved} answers stood elsewhere, {len(found)} nowhere in their context.")


for _task in TASKS:
    _example = f"keras-bert train {_task} --model minilm --train FILE --dev FILE --out tuned --set epochs=4"
    app.command(_task, epilog=f"Example: {_example}")(command(_task))
