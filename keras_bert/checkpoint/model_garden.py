"""Checkpoints of Model Garden's BERT (tf-models-official) and TF Hub's SavedModels; read by TensorFlow, never run.

They are named by objects, but hold each variable's own name too, which is the same in all of them.
"""

import dataclasses
import math
import re
from pathlib import Path

from keras_bert.checkpoint import google, tensorflow_files
from keras_bert.checkpoint.huggingface import Folder, foreign_config
from keras_bert.checkpoint.names import head_of, renamed, turned

_BLOCK, _LAYER = r"transformer/layer_(\d+)", r"encoder.layer.\1"
# the end of a variable's name -> Hugging Face's name
NAMES = {
    "word_embeddings/embeddings": "embeddings.word_embeddings.weight",
    "position_embedding/embeddings": "embeddings.position_embeddings.weight",
    "type_embeddings/embeddings": "embeddings.token_type_embeddings.weight",
    "embeddings/layer_norm": "embeddings.LayerNorm",
    f"{_BLOCK}/self_attention/(query|key|value)": rf"{_LAYER}.attention.self.\2",
    f"{_BLOCK}/(?:self_attention/attention_output|self_attention_output)": f"{_LAYER}.attention.output.dense",
    f"{_BLOCK}/self_attention_layer_norm": f"{_LAYER}.attention.output.LayerNorm",
    f"{_BLOCK}/intermediate": f"{_LAYER}.intermediate.dense",
    f"{_BLOCK}/output": f"{_LAYER}.output.dense",
    f"{_BLOCK}/output_layer_norm": f"{_LAYER}.output.LayerNorm",
    "pooler_transform": "pooler.dense",
    "(?:next_sentence|sentence_prediction)/pooler_dense": "pooler.dense",  # in place of the encoder's own
    "cls/predictions/transform/dense": "cls.predictions.transform.dense",
    "cls/predictions/transform/LayerNorm": "cls.predictions.transform.LayerNorm",
    "cls/predictions/output_bias/bias": "cls.predictions.bias",
    "next_sentence/logits": "cls.seq_relationship",
    "sentence_prediction/logits": "classifier",
    "predictions/transform/logits": "classifier",  # of tokens
}
# the span labeler calls its weights what the token classifier calls its own, but holds them in a layer more
SPANS, SPANS_KEY = "predictions/transform/logits", "model/layer_with_weights-1/layer_with_weights-0/"
PARTS = {"kernel": "weight", "gamma": "weight", "bias": "bias", "beta": "bias"}
_PATTERNS = [(re.compile(rf"(?:.*/)?{pattern}"), name) for pattern, name in NAMES.items()]


def recognizes(path):
    """A TF2 checkpoint, or a folder with one, or a SavedModel."""
    prefix = tensorflow_files.find(path)
    return prefix is not None and tensorflow_files.has_objects(prefix)


def read(path):
    """Reads the names of the weights, and the config: from bert_config.json, or else from the weights' shapes.

    Raises:
        ValueError: a file is missing or broken, or the weights are not BERT's.
    """
    path = Path(path)
    prefix = tensorflow_files.find(path)
    variables, ignored = tensorflow_files.read(prefix)
    folder = prefix.parent.parent if prefix.parent.name == "variables" else prefix.parent
    found, heads_pooler = {}, any("/pooler_dense/" in name for name in variables)
    for name, variable in variables.items():
        if heads_pooler and "pooler_transform/" in name:
            ignored.append(name)  # a head has its own, and the encoder's was not trained with it
            continue
        ours = canonical(name)
        if name.startswith(SPANS) and variable.key.startswith(SPANS_KEY):
            ours = ours.replace("classifier", "qa_outputs")
        found[ours] = _flat(ours, name, variable.shape, variable.read)
    values = _values(folder, prefix, variables)
    source = folder / "bert_config.json"
    config, unknown = foreign_config(google.google_values(values, source), False, source)
    config = dataclasses.replace(config, pooler="pooler.dense.weight" in found)
    head = head_of("bert", found)
    if head == "sequence_classifier" and any(name.startswith(SPANS) for name in variables):
        head = "token_classifier"
    return Folder(
        path,
        config,
        head,
        {},
        None,
        unknown + ignored,
        renamed(prefix, found),
        tokenizer=lambda: _tokenizer(folder, prefix),
    )


def canonical(name):
    """Gives Hugging Face's name of a variable; its own where it is none of BERT's."""
    for pattern, theirs in _PATTERNS:
        if match := pattern.fullmatch(name):
            return match.expand(theirs)
        layer, _, part = name.rpartition("/")
        if part in PARTS and (match := pattern.fullmatch(layer)):
            return f"{match.expand(theirs)}.{PARTS[part]}"
    return name


def _flat(ours, name, shape, read):
    """Query, key and value have (D, N, K) and (N, K), their output (N, K, D); here all are matrices and vectors."""
    if ours.endswith("attention.output.dense.weight"):
        flat = (math.prod(shape[:-1]), shape[-1])
    elif ".attention.self." in ours:
        flat = (shape[0], math.prod(shape[1:])) if ours.endswith(".weight") else (math.prod(shape),)
    else:
        flat = shape
    return turned(flat, lambda: read().reshape(flat)) if name.endswith("/kernel") and len(flat) == 2 else (flat, read)


def _values(folder, prefix, variables):
    """The config's values: the file's, or what the shapes say and Model Garden's own choices."""
    if (folder / "bert_config.json").is_file():
        return google.read_config(folder)[0]
    shapes = {canonical(name): variable.shape for name, variable in variables.items()}
    try:
        query = shapes["encoder.layer.0.attention.self.query.weight"]
        vocab_size, hidden_size = shapes["embeddings.word_embeddings.weight"]
        return {
            "vocab_size": vocab_size,
            "hidden_size": hidden_size,
            "num_hidden_layers": len([name for name in shapes if name.endswith("attention.self.query.weight")]),
            "num_attention_heads": query[1] if len(query) == 3 else None,
            "intermediate_size": shapes["encoder.layer.0.intermediate.dense.weight"][1],
            "max_position_embeddings": shapes["embeddings.position_embeddings.weight"][0],
            "type_vocab_size": shapes["embeddings.token_type_embeddings.weight"][0],
        }
    except KeyError as error:
        raise ValueError(
            f"{prefix} holds no BERT of Model Garden or TF Hub: {error.args[0]} is not among its "
            f"{len(variables)} arrays."
        ) from None


def _tokenizer(folder, prefix):
    """The vocabulary lies beside the checkpoint, or in a SavedModel's assets, whose case the checkpoint tells."""
    file = folder / "assets" / "vocab.txt"
    lowercase = tensorflow_files.setting(prefix, "do_lower_case") if file.is_file() else None
    if not file.is_file():
        return google.read_tokenizer(folder)
    return google.from_vocab(file) if lowercase is None else google.Tokenizer.from_vocab(file, bool(lowercase))
