"""`keras-bert predict`: answers for texts, a JSON line each."""

import json
from pathlib import Path
from typing import Annotated

import typer


def predict(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A model with a head, such as `train` writes.")],
    texts: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...")] = None,
    pair: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="The second text; once for each text.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=".txt, a text a line; or .tsv, .csv, .jsonl."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where the lines go, if not to the screen.")] = None,
):
    """Answer texts by a saved model; one JSON line a text, in their order.

    Example: keras-bert predict reviews "We will certainly come back next summer."
    """
    if bool(texts) == (file is not None):
        raise ValueError("`predict` needs texts or --file, one of them.")
    if pair and file is not None:
        raise ValueError("`--pair` goes with texts; a file brings its pairs in a column.")
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    import keras_bert
    from keras_bert.files import replace_file

    pairs = pair or None
    if file is not None:
        texts, pairs = read_texts(file)
    answers = keras_bert.predict(keras_bert.load(folder), texts, pairs)
    lines = [answer_line(text, pairs[i] if pairs else None, answers[i]) for i, text in enumerate(texts)]
    if out is None:
        typer.echo("\n".join(lines))
        return
    with replace_file(out) as path:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_texts(path):
    """Texts and pairs (or None) of a file."""
    from keras_bert.training.corpus import read_lines
    from keras_bert.training.examples import read_examples

    if path.suffix != ".txt":
        examples = read_examples(path, labelled=False)
        return examples.texts, examples.pairs
    if not path.is_file():
        raise ValueError(f"{path} is missing.")
    return list(read_lines(path)), None


def answer_line(text, pair, answer):
    """One answer as a line of JSON."""
    said = {"text": text} | ({} if pair is None else {"pair": pair})
    if isinstance(answer, dict):
        said |= answer
    elif isinstance(answer, float):
        said["score"] = answer
    elif hasattr(answer, "tolist"):
        said["embedding"] = answer.tolist()
    else:
        said["masks"] = answer
    return json.dumps(said, ensure_ascii=False)
