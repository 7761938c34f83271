"""`keras-bert evaluate TASK`: scores of a model on a file, its errors as a table, pictures."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from keras_bert_cli.tasks import TASKS, Settings, recipe, show_scores, stored_settings

app = typer.Typer(help="Score a model on a labelled file.", no_args_is_help=True)


@app.callback()
def evaluate():
    """Score a model on a labelled file."""


def command(task):
    """The command of one task."""

    def evaluate_task(
        model: Annotated[str, typer.Argument(metavar="FOLDER", help="A model with the task's head.")],
        file: Annotated[Path, typer.Argument(metavar="FILE", help="As for `train`.")],
        out: Annotated[
            Path | None, typer.Option(metavar="FOLDER", help="Where metrics.json and errors.tsv go.")
        ] = None,
        plots: Annotated[
            bool, typer.Option("--plots", help="With --out, also confusion.png and calibration.png (extra `plot`).")
        ] = False,
        set_: Settings = None,
    ):
        module, settings = recipe(task)
        import keras_bert
        from keras_bert.files import check_replaceable
        from keras_bert.training.report import check_plots, write_report
        from keras_bert.training.settings import read_settings

        if plots and out is None:
            raise ValueError("`--plots` needs --out, where the pictures go.")
        if plots:
            check_plots()
        if out is not None:
            check_replaceable(out)
        bundle = keras_bert.load(model)
        if bundle.head not in TASKS[task].heads:
            raise ValueError(f"`evaluate {task}` needs a {' or a '.join(TASKS[task].heads)}, got a {bundle.head}.")
        known = stored_settings(model)
        kept = {field.name: known[field.name] for field in dataclasses.fields(settings) if field.name in known}
        # a run without a dev file: nothing is waited for or held out
        kept |= {"model": model, "train": str(file), "out": str(out or "-"), "dev": "", "patience": 0}
        if task == "classify":
            several = "multiple" if bundle.options.get("multi_label") else "single"
            kind = "regression" if bundle.head == "sequence_regressor" else several
            kept |= {"dev_share": 0.0, "folds": 0, "kind": kind}
        given = {assignment.partition("=")[0] for assignment in set_ or ()}
        kept = {name: value for name, value in kept.items() if name not in given}
        chosen = read_settings(settings, None, set_ or (), **kept)
        evaluation = module.evaluate(chosen, bundle, file)
        show_scores(str(file), evaluation.metrics)
        if out is not None:
            write_report(evaluation, out, plots)
            typer.echo(f"{len(evaluation.errors)} errors are in {out / 'errors.tsv'}.")

    said = f"{TASKS[task].reads} Settings are those of its training, or --set."
    evaluate_task.__doc__ = f"Score a model on a file.\n\n{said}"
    return evaluate_task


for _task in TASKS:
    _example = f"keras-bert evaluate {_task} tuned test.tsv --out report --plots"
    app.command(_task, epilog=f"Example: {_example}")(command(_task))
