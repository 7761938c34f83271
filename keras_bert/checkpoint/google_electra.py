"""Google's TF1 checkpoints of ELECTRA, in: the discriminator, which is the model that is fine-tuned; by TensorFlow."""

import re
from pathlib import Path

from keras_bert.checkpoint import tensorflow_files
from keras_bert.checkpoint.google import google_name, read_tokenizer
from keras_bert.checkpoint.huggingface import Folder, foreign_config
from keras_bert.checkpoint.names import every_name, renamed, turned
from keras_bert.files import read_json

HEAD_SIZE = 64  # of every attention head that Google's code makes
_LAYER = re.compile(r"encoder/layer_(\d+)/attention/self/query/kernel")


def recognizes(path):
    """A checkpoint, named by variables, with the scope `electra`."""
    if not isinstance(path, str | Path) or (prefix := tensorflow_files.find(path)) is None:
        return False
    return any(re.match("(module/)?electra/", name) for name in tensorflow_files.names(prefix))


def read(path):
    """Reads the names of the weights, and the sizes: from a config where there is one, else from the weights' shapes.

    The generator shares the embeddings, but is another model of other sizes: it is reported as ignored.

    Raises:
        ValueError: a file is broken, or the sizes cannot be told.
    """
    prefix = tensorflow_files.find(path)
    variables, ignored = tensorflow_files.read(prefix)
    variables = {re.sub("^(module/)?(electra/)?", "", name): variable for name, variable in variables.items()}
    generator = [name for name in variables if name.startswith(("generator/", "generator_predictions/"))]
    variables = {name: variable for name, variable in variables.items() if name not in generator}
    if generator:
        ignored = [*ignored, f"the generator, {len(generator)} weights"]
    folder = prefix.parent
    values, source = _config(folder) or (_sizes(prefix, variables), prefix)
    config, unknown = foreign_config({**values, "model_type": "electra"}, False, source)
    known = {_google_name(name): name for name in every_name("electra", config.num_hidden_layers)}
    found = {}
    for name, (_, shape, array) in variables.items():
        ours = known.get(name, name)
        found[ours] = turned(shape, array) if ours != name and name.endswith("/kernel") else (shape, array)
    head = "replaced_token_detector" if "discriminator_predictions.dense.weight" in found else None
    stored = renamed(prefix, found)
    return Folder(
        Path(path), config, head, {}, None, unknown + ignored, stored, tokenizer=lambda: read_tokenizer(folder)
    )


def _config(folder):
    """Gives the config beside the checkpoint as a dict, and its path; of several the discriminator's; None for none."""
    files = [file for file in sorted(folder.glob("*config*.json")) if file.name != "tokenizer_config.json"]
    files = [file for file in files if len(files) == 1 or "discriminator" in file.name]
    if len(files) > 1:
        raise ValueError(f"{folder} must hold one config of the discriminator, got {', '.join(f.name for f in files)}.")
    return (read_json(files[0]), files[0]) if files else None


def _sizes(prefix, variables):
    """Gives what a config would say, from the shapes; Google's own checkpoints come without one."""
    shapes = {name: variable.shape for name, variable in variables.items()}
    layers = [int(match[1]) for match in map(_LAYER.fullmatch, shapes) if match]
    try:
        vocab_size, embedding_size = shapes["embeddings/word_embeddings"]
        hidden_size, intermediate_size = shapes["encoder/layer_0/intermediate/dense/kernel"]
        positions = shapes["embeddings/position_embeddings"][0]
        segments = shapes["embeddings/token_type_embeddings"][0]
    except KeyError as missing:
        raise ValueError(f"{prefix} must hold electra/{missing.args[0]}, from which a size is read.") from None
    if hidden_size % HEAD_SIZE:
        raise ValueError(
            f"{prefix} has a hidden size of {hidden_size}, no multiple of {HEAD_SIZE}, so the number of attention "
            "heads is not known. Put a discriminator_config.json beside it."
        )
    return {
        "vocab_size": vocab_size,
        "embedding_size": embedding_size,
        "hidden_size": hidden_size,
        "intermediate_size": intermediate_size,
        "num_hidden_layers": max(layers) + 1,
        "num_attention_heads": hidden_size // HEAD_SIZE,
        "max_position_embeddings": positions,
        "type_vocab_size": segments,
    }


def _google_name(name):
    """Gives the name in Google's file, without its first scope, of what Hugging Face calls `name`."""
    name = google_name(name).removeprefix("bert/")
    return name.replace("discriminator_predictions/dense_prediction/", "discriminator_predictions/dense_1/")
