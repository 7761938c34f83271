"""`keras-bert distill`: a model and texts in, a smaller one out."""

from typing import Annotated

import typer

from keras_bert_cli.tasks import Settings, show_scores
from keras_bert_cli.train_tasks import ConfigFile


def distill(
    teacher: Annotated[str | None, typer.Option(metavar="FOLDER", help="The model to learn from.")] = None,
    train: Annotated[str | None, typer.Option(metavar="PATH", help="A labelled file, or a corpus.")] = None,
    dev: Annotated[str | None, typer.Option(metavar="FILE", help="Decides which epoch is kept.")] = None,
    test: Annotated[str | None, typer.Option(metavar="FILE", help="Scored once, at the end.")] = None,
    out: Annotated[str | None, typer.Option(metavar="FOLDER", help="Where the student and metrics.json go.")] = None,
    layers: Annotated[int | None, typer.Option(help="Blocks of the student; half the teacher's by default.")] = None,
    method: Annotated[str | None, typer.Option(help="task, distilbert, tinybert or minilm.")] = None,
    strategy: Annotated[str | None, typer.Option(help="none, mirrored, multi_worker or tpu (untested).")] = None,
    precision: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoints of a run that ended.")] = False,
    config: ConfigFile = None,
    set_: Settings = None,
):
    """Train a smaller model to answer as a larger one does.

    A classifier teaches on labelled files. Any other model teaches on a corpus: python-docs, a text file with a blank
    line between documents, or a folder that prepare wrote.

    Example: keras-bert distill --teacher reviews --train train.tsv --dev dev.tsv --layers 3 --out small
    """
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    from keras_bert.training.recipes.distill import Distill, run
    from keras_bert.training.settings import read_settings

    given = {"teacher": teacher, "train": train, "dev": dev, "test": test, "layers": layers, "method": method}
    given |= {"strategy": strategy, "precision": precision, "resume": resume or None}
    settings = read_settings(Distill, config, set_ or (), out=out, **given)
    metrics = run(settings)
    shown = {f"teacher, {name}": scores for name, scores in metrics.get("teacher", {}).items()}
    shown |= {f"student, {name}": metrics[name] for name in ("before", "after", "dev", "test") if name in metrics}
    for title, scores in shown.items():
        show_scores(title, {name: value for name, value in scores.items() if name != "classes"})
    sizes = metrics["parameters"]
    typer.echo(f"{sizes['student']:,} parameters for {sizes['teacher']:,}. Saved to {settings.out}.")
