"""`keras-bert data-service`: makes training data on other cores than those that train."""

import time
from typing import Annotated

import typer


def data_service(
    port: Annotated[int, typer.Option(help="Of the dispatcher; 0 takes a free one.")] = 5000,
    workers: Annotated[int, typer.Option(help="Processes that make data, each on all cores.")] = 1,
    host: Annotated[str, typer.Option(help="By which name other hosts reach this one.")] = "localhost",
    dispatcher: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Of a service that runs already, for more workers.")
    ] = None,
):
    """Start a tf.data service, a dispatcher and its workers, until Ctrl-C or until a worker ends.

    Trainers name its address: pretraining_batches(..., service="grpc://HOST:PORT").

    Example: keras-bert data-service --port 5000 --workers 2
    """
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    from keras_bert.training.service import serve

    address, server, processes = serve(port, workers, host, dispatcher)
    typer.echo(f"Serving at {address}, {len(processes)} workers. Ctrl-C ends it.")
    try:
        while all(process.is_alive() for process in processes):
            time.sleep(0.5)
    except KeyboardInterrupt:
        return
    finally:
        for process in processes:
            process.terminate()
        del server  # it serves as long as it is held
    typer.secho("A worker ended by itself. See above why.", fg="red", err=True)
    raise typer.Exit(1)
