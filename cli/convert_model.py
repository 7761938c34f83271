"""`keras-bert convert`: a checkpoint of one kind becomes one of another, with a parity report."""

from pathlib import Path
from typing import Annotated

import typer


def convert(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="A folder of Hugging Face or sentence-transformers, a checkpoint of Google or Model Garden, a "
            "SavedModel of TF Hub, or a KerasHub preset.",
        ),
    ],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A folder, or for keras a file .keras.")],
    to: Annotated[str, typer.Option(help="huggingface, google, keras_hub or keras.")] = "huggingface",
    head: Annotated[str | None, typer.Option(help="The head to take, or encoder; by default the source's.")] = None,
    allow_activation_change: Annotated[
        bool,
        typer.Option(
            "--allow-activation-change", help="Let exact gelu become tanh gelu, where the target has only that."
        ),
    ] = False,
):
    """Convert a model, read it back, compare the two on probe inputs, and write conversion.json.

    Example: keras-bert convert uncased_L-12_H-768_A-12 bert-base
    """
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    from keras_bert.checkpoint.convert import convert as write

    report = write(source, target, to, head, allow_activation_change)
    typer.echo(
        f"{report['kind']} -> {to}: {report['family']}, {report['head'] or 'encoder'}, "
        f"{report['parameters']:,} parameters, {report['arrays_bit_equal']} of {report['arrays']} arrays bit-equal."
    )
    typer.echo(f"Largest difference on probe inputs: {report['largest_difference']:.1e}.")
    if report["activation"]["from"] != report["activation"]["to"]:
        typer.echo(f"The activation changed from {report['activation']['from']} to {report['activation']['to']}.")
    for name, said in (("kept", "Kept beside it"), ("unused", "Left out (unused)"), ("ignored", "Left out (ignored)")):
        if report.get(name):
            typer.echo(f"{said}: {', '.join(report[name])}.")
    typer.echo(f"Written to {target}.")
