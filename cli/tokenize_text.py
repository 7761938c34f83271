"""`keras-bert tokenize`: what the tokenizer of a folder makes of a text."""

from pathlib import Path
from typing import Annotated

import typer


def tokenize(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Holds vocab.txt or tokenizer.json.")],
    text: Annotated[str, typer.Argument(metavar="TEXT")],
    pair: Annotated[str | None, typer.Option(metavar="TEXT", help="The second text.")] = None,
    allow_special: Annotated[bool, typer.Option("--allow-special", help="[MASK] and the like count as such.")] = False,
):
    """Show the tokens of a text: ids, places in the text, words, segments.

    Example: keras-bert tokenize minilm "Tokenizing 商务大床房"
    """
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from keras_bert.tokenization import Tokenizer

    tokenizer = Tokenizer.from_folder(folder)
    found = tokenizer.encode(text, pair, tokenizer.special_tokens if allow_special else ())
    table = Table("token", "id", "start", "end", "word", "segment")
    for token, number, (start, end), word, segment in zip(
        found.tokens, found.ids, found.offsets, found.word_ids, found.segment_ids, strict=True
    ):
        place = ("", "", "") if word is None else (str(start), str(end), str(word))
        table.add_row(escape(token), str(number), *place, str(segment))
    Console().print(table)
