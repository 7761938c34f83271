"""Google's TF1 checkpoints of BERT and ALBERT, in and out: `bert_model.ckpt`, `bert_config.json`; by TensorFlow."""

import dataclasses
import re
from pathlib import Path

import numpy as np

from keras_bert.checkpoint import tensorflow_files
from keras_bert.checkpoint.containers import written_json
from keras_bert.checkpoint.families import FAMILIES
from keras_bert.checkpoint.huggingface import Folder, foreign_config, read_labels, stored_name
from keras_bert.checkpoint.names import every_name, head_of, renamed, turned
from keras_bert.files import read_json
from keras_bert.tokenization.host import HostTokenizer
from keras_bert.tokenization.loading import load_tokenizer
from keras_bert.tokenization.spiece import read_spiece
from keras_bert.tokenization.tokenizer import Tokenizer

EPS = 1e-12  # fixed in Google's code
# Hugging Face's layer -> the scope of Google's `output_weights` and `output_bias`
_OUTPUTS = {
    "cls.seq_relationship": "cls/seq_relationship/",
    "sop_classifier.classifier": "cls/seq_relationship/",
    "classifier": "",
    "qa_outputs": "cls/squad/",
}
_MASKED_BIAS = ("cls.predictions.bias", "predictions.bias")
_LAYER, _GROUP = "encoder.albert_layer_groups.0.albert_layers.0", "bert/encoder/transformer/group_0/inner_group_0"
# layers that do not just have other separators
_ALBERT = {
    f"{_LAYER}.attention.query": f"{_GROUP}/attention_1/self/query",
    f"{_LAYER}.attention.key": f"{_GROUP}/attention_1/self/key",
    f"{_LAYER}.attention.value": f"{_GROUP}/attention_1/self/value",
    f"{_LAYER}.attention.dense": f"{_GROUP}/attention_1/output/dense",
    f"{_LAYER}.attention.LayerNorm": f"{_GROUP}/LayerNorm",
    f"{_LAYER}.ffn": f"{_GROUP}/ffn_1/intermediate/dense",
    f"{_LAYER}.ffn_output": f"{_GROUP}/ffn_1/intermediate/output/dense",
    f"{_LAYER}.full_layer_layer_norm": f"{_GROUP}/LayerNorm_1",
    "pooler": "bert/pooler/dense",
    "predictions.dense": "cls/predictions/transform/dense",
    "predictions.LayerNorm": "cls/predictions/transform/LayerNorm",
}
FIELDS = (
    "attention_probs_dropout_prob",
    "hidden_act",
    "hidden_dropout_prob",
    "hidden_size",
    "initializer_range",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "type_vocab_size",
    "vocab_size",
)
# keys that only other architectures have
_OTHERS = {"use_bottleneck": "MobileBERT"}


def recognizes(path):
    """A checkpoint, or a folder with one; or a folder that has at least Google's config."""
    path = Path(path)
    return tensorflow_files.find(path) is not None or (path / "bert_config.json").is_file()


def read(path):
    """Reads the config and the names of the weights.

    Raises:
        ValueError: a file is missing or broken, or the config is of another architecture.
    """
    path = Path(path)
    prefix = tensorflow_files.find(path)
    if prefix is None:
        raise ValueError(f"{path} has bert_config.json but no checkpoint, such as bert_model.ckpt.index.")
    variables, ignored = tensorflow_files.read(prefix)
    folder = prefix.parent.parent if prefix.parent.name == "variables" else prefix.parent
    values, source = read_config(folder)
    config, unknown = foreign_config(google_values(values, source), False, source)
    family = config.model_type
    known = {google_name(name).removeprefix("bert/"): name for name in every_name(family, config.num_hidden_layers)}
    found = {}
    for name, (_, shape, array) in variables.items():
        theirs = re.sub(r"(?<=/)layer_normalization(_\d+)?(?=/)", "LayerNorm", name)
        theirs = theirs.removeprefix("module/").removeprefix("bert/")
        ours = known.get(theirs, name)
        found[ours] = turned(shape, array) if ours != name and theirs.endswith("/kernel") else (shape, array)
    config = dataclasses.replace(config, pooler=f"{FAMILIES[family].encoder['pooler']}.weight" in found)
    ours = values.get("keras_bert", {})
    head = ours["head"] if "head" in ours else head_of(family, found)
    if head == "sequence_classifier" and found["classifier.weight"][0][0] == 1:
        head = "sequence_regressor"
    return Folder(
        path,
        config,
        head,
        ours.get("options", {}),
        read_labels(values),
        unknown + ignored,
        renamed(prefix, found),
        tokenizer=lambda: read_tokenizer(folder),
    )


def read_config(folder):
    """Gives the folder's config as a dict, and its path.

    Raises:
        ValueError: there is none, or several.
    """
    if (folder / "bert_config.json").is_file():
        return read_json(folder / "bert_config.json"), folder / "bert_config.json"
    found = [file for file in sorted(folder.glob("*config*.json")) if file.name != "tokenizer_config.json"]
    if len(found) != 1:
        got = ", ".join(file.name for file in found) or "none"
        raise ValueError(f"{folder} must hold bert_config.json beside its checkpoint, got {got}.")
    return read_json(found[0]), found[0]


def google_values(values, source):
    """Google's config with Hugging Face's meanings: the "gelu" of Google's code is the tanh form.

    Raises:
        ValueError: it describes another architecture than BERT or ALBERT.
    """
    family = "albert" if "num_hidden_groups" in values else "bert"
    for key, name in _OTHERS.items() if family == "bert" else ():
        if key in values:
            raise ValueError(
                f"{source} describes {name} (it has `{key}`); of Google's checkpoints BERT, ALBERT and "
                "ELECTRA are read. Convert it to a Hugging Face folder first."
            )
    activation = values.get("hidden_act", "gelu")
    return {**values, "model_type": family, "hidden_act": "gelu_new" if activation == "gelu" else activation}


def read_tokenizer(folder):
    """Makes the tokenizer of a folder, or gives None; where nothing else says so, the vocabulary tells its case."""
    folder = Path(folder)
    if (folder / "tokenizer_config.json").is_file() or (folder / "tokenizer.json").is_file():
        return load_tokenizer(folder)
    for file in (folder / "vocab.txt", folder / "assets" / "vocab.txt"):
        if file.is_file():
            return from_vocab(file)
    for file in (*sorted(folder.glob("*.model")), *sorted(folder.glob("assets/*.model"))):  # 30k-clean.model
        return HostTokenizer(read_spiece(file.read_bytes()), "albert")
    return None


def from_vocab(file):
    """Makes the tokenizer of a bare vocab.txt, lower-casing where the vocabulary has no capitals."""
    tokenizer = Tokenizer.from_vocab(file)
    special = re.compile(r"\[.*\]|<.*>")
    lowercase = all(token == token.lower() for token in tokenizer.vocab if not special.fullmatch(token))
    return tokenizer if lowercase else Tokenizer.from_vocab(file, lowercase=False)


def google_name(name):
    """Gives Google's name of a weight that Hugging Face calls `name`, without its prefix."""
    if name in _MASKED_BIAS:
        return "cls/predictions/output_bias"
    layer, _, part = name.rpartition(".")
    if layer in _OUTPUTS:
        return f"{_OUTPUTS[layer]}output_{'weights' if part == 'weight' else 'bias'}"
    if layer in _ALBERT:
        layer = _ALBERT[layer]
    else:
        layer = re.sub(r"layer\.(\d+)", r"layer_\1", layer).replace(".", "/")
        layer = layer if layer.startswith("cls/") else f"bert/{layer}"
    if layer.endswith("_embeddings"):
        return layer
    if layer.endswith(("/LayerNorm", "/LayerNorm_1")):
        return f"{layer}/{'gamma' if part == 'weight' else 'beta'}"
    return f"{layer}/{'kernel' if part == 'weight' else 'bias'}"


def write(bundle, folder, allow_activation_change=False, others=None):
    """Writes the bundle as Google's checkpoint into an existing folder.

    Args:
        others: further weights, under Hugging Face's names, such as those of a second head.
        allow_activation_change: whether a model with exact gelu may become one with tanh gelu.

    Raises:
        ValueError: Google's code has no such model.
    """
    folder, config = Path(folder), bundle.config
    check_fixed(config, "Google's TF1 code", allow_activation_change, ("bert", "albert"))
    arrays, known = {}, every_name(config.model_type, config.num_hidden_layers)
    for weight in bundle.model.weights:
        name = stored_name(config, bundle.head, weight.path)
        if name not in known:
            raise ValueError(f"Google's TF1 code has no place for {weight.path}.")
        array = np.asarray(weight.value, "float32")
        arrays[google_name(name)] = array.T if name.rpartition(".")[0] in _OUTPUTS else array  # (classes, D)
    for name, array in (others or {}).items():
        name = google_name(name)
        arrays[name] = array.T if name.endswith("/kernel") else array
    tensorflow_files.write(folder / "bert_model.ckpt", arrays)
    with written_json(folder / f"{config.model_type}_config.json") as values:
        for field in FIELDS:
            values[field] = getattr(config, field)
        if config.model_type == "albert":
            values.update({"embedding_size": config.embedding_width, "num_hidden_groups": 1, "inner_group_num": 1})
        values["hidden_act"] = "relu" if config.hidden_act == "relu" else "gelu"
        if config.pad_token_id:
            values["pad_token_id"] = config.pad_token_id
        if bundle.labels is not None:
            values["id2label"] = {str(i): label for i, label in enumerate(bundle.labels)}
        values["keras_bert"] = {"head": bundle.head, "options": bundle.options}
    if bundle.tokenizer is not None:
        bundle.tokenizer.save(folder)


def check_fixed(config, code, allow_activation_change, families=("bert",)):
    """Refuses what Google's code, and code that follows it, has no setting for.

    Raises:
        ValueError: the model is of another family, has adapters, exact gelu (unless that may change), another epsilon.
    """
    if config.lora is not None:
        raise ValueError(f"{code} has no adapters. Use `lora.merge` first.")
    if config.model_type not in families:
        raise ValueError(f"{code} has no {config.model_type}; it has {' and '.join(families)}.")
    if config.hidden_act == "gelu" and not allow_activation_change:
        raise ValueError(
            f"{code} computes the tanh form of gelu and this model has the exact one, so its outputs would change. "
            "Ask for it by `allow_activation_change`, and the largest difference is reported."
        )
    if config.layer_norm_eps != EPS:
        raise ValueError(f"{code} has a `layer_norm_eps` of {EPS}, this model has {config.layer_norm_eps}.")
