"""`keras-bert serve-config`: what TensorFlow Serving needs to serve exports."""

from pathlib import Path
from typing import Annotated

import typer

from keras_bert_cli.serve_models import named_folders, numbered_label


def serve_config(
    folders: Annotated[list[str], typer.Argument(metavar="[NAME=]FOLDER...", help="Folders of versions, served/1 ...")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the files go.")],
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME/LABEL=VERSION", help="Served beside the newest version.")
    ] = None,
    max_batch_size: Annotated[int, typer.Option(help="Texts that go through a model together.")] = 32,
    max_delay_ms: Annotated[float, typer.Option(help="That a text waits for others.")] = 2.0,
    threads: Annotated[int, typer.Option(help="Batches at the same time.")] = 2,
    image: Annotated[str | None, typer.Option(help="Of TensorFlow Serving.")] = None,
):
    """Write models.config, batching.config, monitoring.config and compose.yaml for TensorFlow Serving.

    Example: keras-bert serve-config reviews=served --out serving
    """
    named = named_folders(folders)
    labels = dict(numbered_label(text) for text in label or ())
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    from keras_bert.export import serve_config as files

    files.write(named, out, labels, max_batch_size, max_delay_ms, threads, image or files.IMAGE)
    typer.echo(f"Written to {out}: {files.MODELS}, {files.BATCHING}, {files.MONITORING}, {files.COMPOSE}.")
    typer.echo(f"To serve: docker compose --file {out}/{files.COMPOSE} up")
