"""`keras-bert verify`: an exported artifact is asked about its golden texts again, on this machine."""

from pathlib import Path
from typing import Annotated

import typer


def verify(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="An export.")]):
    """Load an artifact back by its own runtime and compare it with the answers in its golden.jsonl.

    Example: keras-bert verify served/1
    """
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    from keras_bert.export import verify as check
    from keras_bert_cli.export_model import agreement_of

    found = check(folder)
    typer.echo(
        f"{found['format']}: largest difference {found['largest_difference']:.1e} (allowed "
        f"{found['allowed_difference']:.1e}), {agreement_of(found)}."
    )
