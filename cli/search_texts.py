"""`keras-bert index` and `keras-bert search`: exact search over the texts of a file."""

import json
from pathlib import Path
from typing import Annotated

import typer


def index(
    model: Annotated[Path, typer.Argument(metavar="FOLDER", help="An embedder, such as `train embed` writes.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help=".txt, a text a line; or .tsv, .csv, .jsonl.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where texts and vectors go.")],
):
    """Embed the texts of a file, to be searched.

    Example: keras-bert index minilm articles.txt --out articles-index
    """
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    import keras_bert
    from keras_bert.files import check_replaceable
    from keras_bert.retrieval import write_index

    check_replaceable(out)
    texts = read_texts(file)
    write_index(keras_bert.load(model), texts, out, model)
    typer.echo(f'{len(texts)} texts are in {out}. Ask: keras-bert search {out} "a question"')


def search(
    folder: Annotated[Path, typer.Argument(metavar="INDEX", help="What `index` wrote.")],
    queries: Annotated[list[str] | None, typer.Argument(metavar="[QUERY]...")] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Queries: .txt, .tsv, .csv, .jsonl.")] = None,
    top: Annotated[int, typer.Option(metavar="N", help="Texts a query.")] = 5,
    reranker: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A reranker, for the order of the nearest.")
    ] = None,
    candidates: Annotated[int, typer.Option(metavar="N", help="How many of the nearest the reranker scores.")] = 100,
    embedder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The index's model, if it lies elsewhere now.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where the lines go, if not to the screen.")] = None,
):
    """Find the texts that answer a query; one JSON line a query, the best first.

    Example: keras-bert search articles-index "how do planes fly" --top 3
    """
    if bool(queries) == (file is not None):
        raise ValueError("`search` needs queries or --file, one of them.")
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    import keras_bert
    from keras_bert.retrieval import read_index
    from keras_bert.retrieval import search as find
    from keras_bert_cli.predict_texts import lines_to

    found = read_index(folder)
    queries = queries or read_texts(file)
    model = keras_bert.load(embedder or found.embedder)
    second = keras_bert.load(reranker) if reranker is not None else None
    results = find(found, model, queries, top, second, max(candidates, top))
    with lines_to(out) as write:
        for query, result in zip(queries, results, strict=True):
            write(json.dumps({"query": query, "results": result}, ensure_ascii=False) + "\n")


def read_texts(path):
    """The texts of a file, of which each is one by itself."""
    from keras_bert_cli.predict_texts import read_asked

    rows = list(read_asked(path, "texts"))
    if any(pair is not None for _, pair in rows):
        raise ValueError(f"{path} must have one text a line, got pairs.")
    return [text for text, _ in rows]
