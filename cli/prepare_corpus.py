"""`keras-bert prepare`: raw text into shards of tokenized documents."""

from pathlib import Path
from typing import Annotated

import typer


def prepare(
    corpus: Annotated[
        list[str], typer.Argument(metavar="CORPUS...", help="Text, .jsonl, .gz, .bz2, .xz; quoted globs.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the shards and manifest.json go.")],
    tokenizer: Annotated[Path, typer.Option(metavar="FOLDER", help="Holds vocab.txt or tokenizer.json.")],
    segmenter: Annotated[str | None, typer.Option(help="Finds Chinese words to mask: jieba, or spaces.")] = None,
    processes: Annotated[int | None, typer.Option(help="How many; all cores if not given.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Go on without lines that cannot be read.")] = False,
):
    """Tokenize a corpus of any size once, for pretraining; a run that was stopped goes on where it was.

    Text files are UTF-8, with a blank line between documents; a line of JSONL is a document, with its text in "text".

    Example: keras-bert prepare "texts/*.txt.gz" --tokenizer minilm --out prepared
    """
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    import os

    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    from keras_bert.tokenization import Tokenizer
    from keras_bert.training.preparing import prepare

    columns = "prepare", "{task.fields[shards]} shards", "{task.fields[millions]:.1f} million characters"
    with Progress(*map(TextColumn, columns), TimeElapsedColumn(), console=console()) as bar:
        task = bar.add_task("", shards=0, millions=0.0)
        manifest = prepare(
            corpus,
            out,
            Tokenizer.from_folder(tokenizer),
            segmenter,
            processes=processes or os.cpu_count() or 1,
            skip_bad=skip_bad,
            progress=lambda shards, size: bar.update(task, shards=shards, millions=size / 1e6),
        )
    for line in manifest["skipped"]:
        typer.secho(f"left out: {line}", fg="yellow", err=True)
    counts = ", ".join(f"{manifest[name]:,} {name}" for name in ("documents", "sentences", "tokens"))
    typer.echo(f"{counts} in {len(manifest['shards'])} shards. Look at them: keras-bert show-data {out}")


def console():
    """Where progress is shown: standard error."""
    from rich.console import Console

    return Console(stderr=True)
