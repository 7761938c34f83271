"""`keras-bert export`: a saved model becomes an artifact that answers without this package."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A saved model.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the artifact and report.json go.")],
    format: Annotated[str, typer.Option(help="saved_model, tflite or onnx.")] = "saved_model",
    inputs: Annotated[
        str | None, typer.Option(help="tflite: text, pair, ids, free_ids, mediapipe; onnx: ids, text, pair.")
    ] = None,
    max_length: Annotated[int | None, typer.Option(help="Tokens of a text.")] = None,
    quantize: Annotated[
        str | None, typer.Option(help="float16, dynamic (int8); tflite: int8; onnx: weight_only.")
    ] = None,
    set: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A setting of the head: dimensions=256, null_threshold=-2 ..."),
    ] = None,
    calibrate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="tflite int8: texts that fix its ranges.")
    ] = None,
    eval: Annotated[Path | None, typer.Option(metavar="FILE", help="Texts on which both must agree.")] = None,
):
    """Write an artifact, load it back by its own runtime, and compare it with the model.

    Example: keras-bert export reviews --format saved_model --out served/1
    """
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    import keras_bert
    from keras_bert.export import export as write
    from keras_bert_cli.predict_texts import settings_of, takes_of

    given = {"inputs": inputs, "max_length": max_length, "quantize": quantize}
    options = {name: value for name, value in given.items() if value is not None} | settings_of(set)
    bundle = keras_bert.load(folder)
    texts, seen = (None if file is None else evaluation_texts(file, takes_of(bundle)) for file in (eval, calibrate))
    report = write(bundle, out, format=format, evaluation=texts, calibration=seen, **options)
    typer.echo(
        f"{report['format']}: {report['bytes'] / 1e6:.1f} MB, largest difference {report['largest_difference']:.1e}, "
        f"{agreement_of(report)}, {report['latency_ms']:.1f} ms a short text "
        f"(Keras {report['keras_latency_ms']:.1f} ms)."
    )
    warn_of_other_tokens(report.get("mediapipe_tokens"))
    typer.echo(f"Written to {out}, with report.json.")


def warn_of_other_tokens(found):
    """Says how many of the user's texts MediaPipe will split otherwise, and shows the first."""
    if found is None or not found["differ"]:
        return
    first = found["examples"][0]
    typer.echo(
        f"Warning: MediaPipe's own tokenizer makes other tokens of {found['differ']} of {found['texts']} texts: of "
        f"{first['text']!r} {' '.join(first['mediapipe'])} instead of {' '.join(first['ours'])}. More in report.json.",
        err=True,
    )


def evaluation_texts(path, takes):
    """Reads the texts, or the (text, pair)s, of a file as `predict` takes it; its labels are not needed."""
    from keras_bert_cli.predict_texts import read_asked

    rows = [(text if isinstance(text, str) else " ".join(text), pair) for text, pair in read_asked(path, takes)]
    return [text if pair is None else (text, pair) for text, pair in rows]


def agreement_of(report):
    """Says how well the artifact keeps the answers, and on how many texts where it was asked about texts."""
    measured = report["evaluation"]
    if measured is None:
        return f"agreement {report['agreement']:.0%}"
    parts = [
        f"{words} {measured[name]:.4f}"
        for name, words in (("agreement", "agreement"), ("cosine_mean", "mean cosine"), ("correlation", "correlation"))
        if name in measured
    ]
    return f"{', '.join(parts)} on {measured['probes']} texts"
