"""`keras-bert predict`: answers for texts, a JSON line each."""

import contextlib
import itertools
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

AT_ONCE = 1024  # texts of a file that are answered before their lines are written

# columns of what a head takes, where they are not texts or pairs; see `answers.Answer`
COLUMNS = {"contexts": ("question", "context"), "choices": ("text", "choices")}


def predict(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A model with a head, such as `train` writes.")],
    texts: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...")] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="The second text, or the context; once for each text. For one text, each choice."
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=".txt, a text a line; or .tsv, .csv, .jsonl."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where the lines go, if not to the screen.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Tokens of an input.")] = None,
    set: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A setting of the head: top=3, stride=64, null_threshold=-2 ..."),
    ] = None,
):
    """Answer texts by a saved model; one JSON line a text, in their order.

    A .jsonl file has the keys "question" and "context" for answers, "text" and "choices" (a list) for choices, "text"
    or "words" (a list) for entities, otherwise those that `train` reads.

    Example: keras-bert predict reviews "We will certainly come back next summer."
    """
    if bool(texts) == (file is not None):
        raise ValueError("`predict` needs texts or --file, one of them.")
    if pair and file is not None:
        raise ValueError("`--pair` goes with texts; a file brings its pairs in a column.")
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    import keras_bert

    settings = settings_of(set)
    bundle = keras_bert.load(folder)
    takes = takes_of(bundle)
    if file is None:
        pairs = [pair] if pair and takes == "choices" else pair or None
        if pairs is not None and len(pairs) != len(texts):
            raise ValueError(f"`--pair` must be there once for each text, got {len(pairs)} for {len(texts)}.")
        asked = zip(texts, pairs or itertools.repeat(None), strict=False)
    else:
        asked = read_asked(file, takes)
    with lines_to(out) as write:
        while part := list(itertools.islice(asked, AT_ONCE)):
            texts, pairs = ([row[i] for row in part] for i in range(2))
            pairs = None if pairs[0] is None else pairs
            answers = keras_bert.predict(bundle, texts, pairs, max_length=max_length, **settings)
            for row, answer in zip(part, answers, strict=True):
                write(answer_line(bundle.head, takes, *row, answer) + "\n")


def takes_of(bundle):
    """What the bundle's head is asked, as `answers.Answer` has it."""
    from keras_bert import HEADS

    head = HEADS.get(bundle.head)
    return head.answer.takes if head and head.answer else "texts"


def settings_of(given):
    """Reads NAME=VALUE; values are numbers."""
    settings = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"`--set` must be NAME=VALUE, got {text!r}.")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            raise ValueError(f"`{name}` must be a number, got {value!r} in --set.") from None
    return settings


@contextlib.contextmanager
def lines_to(out):
    """Gives a function that writes to the screen at once, or to a file that is there once it is whole."""
    if out is None:
        yield lambda text: (sys.stdout.write(text), sys.stdout.flush())
        return
    from keras_bert.files import replace_file

    with replace_file(out) as path, path.open("w", encoding="utf-8") as file:
        yield file.write


def read_asked(path, takes):
    """Yields (text, pair or None) of each row of a file; words are a list, and so are choices."""
    from keras_bert.training.corpus import read_lines
    from keras_bert.training.examples import read_examples, read_rows

    if path.suffix == ".txt" and takes not in COLUMNS:
        if not path.is_file():
            raise ValueError(f"{path} is missing.")
        yield from ((line, None) for line in read_lines(path))
    elif takes in COLUMNS:
        for line, row in read_rows(path):
            yield tuple(_cell(path, line, row, name) for name in COLUMNS[takes])
    elif takes == "documents":
        for line, row in read_rows(path):
            yield _cell(path, line, row, "words" if "words" in row else "text"), None
    else:
        examples = read_examples(path, labelled=False)
        yield from zip(examples.texts, examples.pairs or itertools.repeat(None), strict=False)


def _cell(path, line, row, name):
    if name not in row:
        raise ValueError(f"{path} line {line} must have `{name}`, got {', '.join(row)}.")
    return row[name]


def answer_line(head, takes, text, pair, answer):
    """One answer as a line of JSON, behind what was asked, but for the context of a question."""
    first = "words" if isinstance(text, list) else COLUMNS.get(takes, ("text",))[0]
    said = {first: text}
    if pair is not None and takes != "contexts":
        said["choices" if takes == "choices" else "pair"] = pair
    if isinstance(answer, dict):
        said |= answer
    elif isinstance(answer, float):
        said["probability" if head == "next_sentence" else "score"] = answer
    elif hasattr(answer, "tolist"):
        said["embedding"] = answer.tolist()
    else:
        said["masks"] = answer
    return json.dumps(said, ensure_ascii=False)
