"""`keras-bert serve`: SavedModels answer over HTTP, by TensorFlow Serving's REST contract."""

from pathlib import Path
from typing import Annotated

import typer


def serve(
    folders: Annotated[
        list[str], typer.Argument(metavar="[NAME=]FOLDER...", help="Exports: a SavedModel, or a folder of versions.")
    ],
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 8501,
    host: Annotated[str, typer.Option(help="0.0.0.0 also answers other machines.")] = "127.0.0.1",
    keep: Annotated[int, typer.Option(min=1, help="How many of the newest versions answer.")] = 1,
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME/LABEL=VERSION", help="A version that has a label always answers.")
    ] = None,
    max_batch_size: Annotated[int, typer.Option(help="Texts that go through a model together; 1: one by one.")] = 32,
    max_delay_ms: Annotated[float, typer.Option(help="That a text waits for others.")] = 2.0,
    max_queue: Annotated[int, typer.Option(help="Texts that may wait; more are refused with 429.")] = 1024,
    timeout_s: Annotated[float, typer.Option(help="That a request may take; then 504.")] = 30.0,
    max_body_bytes: Annotated[int, typer.Option(help="Of a request; then 413.")] = 1_000_000,
    workers: Annotated[int, typer.Option(help="Model calls at the same time.")] = 1,
    poll_s: Annotated[float, typer.Option(help="Seconds between two looks for new versions.")] = 1.0,
):
    """Answer texts by SavedModels: /v1/models/NAME:predict, /healthz, /metrics. New versions load by themselves.

    Example: keras-bert serve reviews=served --port 8501
    """
    named = named_folders(folders)
    labels = dict(numbered_label(text) for text in label or ())
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    from keras_bert.export import server

    server.check_installed()
    from keras_bert.export.server import app, batching, models

    limits = batching.Limits(max_batch_size, max_delay_ms, max_queue, timeout_s, max_body_bytes, workers)
    with app.listen(host, port) as listening:  # before the models, which take longer than to see that it is taken
        served = models.Models(named, labels, keep)
        served.load()
        for name in named:
            address = f"http://{host}:{listening.getsockname()[1]}/v1/models/{name}"
            typer.echo(f"{name}, version {served.newest(name)}: {address}:predict")
        app.run(app.application(served, limits, poll_s), listening)


def named_folders(folders):
    """Gives dict name -> Path of "NAME=FOLDER" or "FOLDER", whose own name is then the model's."""
    named = {}
    for text in folders:
        name, is_named, folder = text.partition("=")
        path = Path(folder if is_named else text)
        name = name if is_named else path.resolve().name
        if not name or set(name) & set("/:"):
            raise ValueError(f"A model's name must not have / or :, got {name!r}. Name it: reviews={path}")
        if name in named:
            raise ValueError(f"Two folders are called {name}. Name them: first={named[name]} second={path}")
        named[name] = path
    return named


def numbered_label(text):
    """Gives ((name, label), version) of "NAME/LABEL=VERSION"."""
    place, _, number = text.partition("=")
    name, _, label = place.rpartition("/")
    if not (name and label and number.isascii() and number.isdigit()):
        raise ValueError(f"`--label` must be NAME/LABEL=VERSION, such as reviews/stable=1, got {text!r}.")
    return (name, label), int(number)
