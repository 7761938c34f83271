"""`keras-bert export`: a saved model becomes an artifact that answers without this package."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A saved model.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the artifact and report.json go.")],
    format: Annotated[str, typer.Option(help="saved_model, tflite or onnx.")] = "saved_model",
    inputs: Annotated[str | None, typer.Option(help="tflite: text, pair, ids or free_ids.")] = None,
    max_length: Annotated[int | None, typer.Option(help="saved_model, tflite: tokens of a text.")] = None,
):
    """Write an artifact, load it back by its own runtime, and compare it with the model.

    Example: keras-bert export reviews --format saved_model --out served/1
    """
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    import keras_bert
    from keras_bert.export import export as write

    options = {name: value for name, value in (("inputs", inputs), ("max_length", max_length)) if value is not None}
    report = write(keras_bert.load(folder), out, format=format, **options)
    typer.echo(
        f"{report['format']}: {report['bytes'] / 1e6:.1f} MB, largest difference {report['largest_difference']:.1e}, "
        f"agreement {report['agreement']:.0%}, {report['latency_ms']:.1f} ms a short text "
        f"(Keras {report['keras_latency_ms']:.1f} ms)."
    )
    typer.echo(f"Written to {out}, with report.json.")
