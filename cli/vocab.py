"""`keras-bert vocab`: a WordPiece vocabulary from raw text."""

from pathlib import Path
from typing import Annotated

import typer


def vocab(
    corpus: Annotated[list[Path], typer.Argument(metavar="CORPUS...", help="Text files in UTF-8, or folders of .txt.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where vocab.txt and tokenizer.json go.")],
    size: Annotated[int, typer.Option(help="The most tokens to have.")] = 30_000,
    unused: Annotated[int, typer.Option(help="Rows to leave free for later, counted in the size.")] = 99,
    cased: Annotated[bool, typer.Option("--cased", help="Keep upper case and accents.")] = False,
):
    """Train a WordPiece vocabulary on raw text, read line by line.

    Special and unused tokens stand in BERT's order. Chinese characters are always single.

    Example: keras-bert vocab corpus.txt --size 8000 --out tokenizer
    """
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    from keras_bert.tokenization import Tokenizer
    from keras_bert.training.corpus import read_lines
    from keras_bert.training.vocabulary import train_vocab

    files = []
    for path in corpus:
        files += sorted(path.rglob("*.txt")) if path.is_dir() else [path]
        if not path.exists() or (path.is_dir() and not any(path.rglob("*.txt"))):
            raise ValueError(f"CORPUS must be text files or folders of .txt files, got {path}.")
    tokens = train_vocab((line for file in files for line in read_lines(file)), size, not cased, unused)
    Tokenizer(tokens, lowercase=not cased).save(out)
    typer.echo(f'{len(tokens)} tokens from {len(files)} files. Try them: keras-bert tokenize {out} "Some text"')
