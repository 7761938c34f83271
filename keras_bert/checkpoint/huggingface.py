"""Hugging Face folders: `config.json` and `model.safetensors`, in and out, heads included."""

import dataclasses
import difflib
import json
import re
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from keras_bert.config import BertConfig, did_you_mean

# Weight path here -> name there. "{i}" is the layer's number. Dense kernels are stored transposed.
ENCODER = {
    "token_embedding/embeddings": "embeddings.word_embeddings.weight",
    "embeddings/position_embeddings": "embeddings.position_embeddings.weight",
    "embeddings/segment_embeddings": "embeddings.token_type_embeddings.weight",
    "embeddings/norm": "embeddings.LayerNorm",
    "layer_{i}/attention/query": "encoder.layer.{i}.attention.self.query",
    "layer_{i}/attention/key": "encoder.layer.{i}.attention.self.key",
    "layer_{i}/attention/value": "encoder.layer.{i}.attention.self.value",
    "layer_{i}/attention/output": "encoder.layer.{i}.attention.output.dense",
    "layer_{i}/attention_norm": "encoder.layer.{i}.attention.output.LayerNorm",
    "layer_{i}/intermediate": "encoder.layer.{i}.intermediate.dense",
    "layer_{i}/output": "encoder.layer.{i}.output.dense",
    "layer_{i}/output_norm": "encoder.layer.{i}.output.LayerNorm",
    "pooler": "pooler.dense",
}
HEAD = {
    "mlm/dense": "cls.predictions.transform.dense",
    "mlm/norm": "cls.predictions.transform.LayerNorm",
    "mlm_bias/bias": "cls.predictions.bias",
    "nsp": "cls.seq_relationship",
    "logits": "classifier",
}
PARTS = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}

# head here -> architecture there; None is the bare encoder
ARCHITECTURES = {
    None: "BertModel",
    "sentence_embedder": "BertModel",
    "masked_language_model": "BertForMaskedLM",
    "pretraining_model": "BertForPreTraining",
    "sequence_classifier": "BertForSequenceClassification",
}
# Where the heads' names begin. What another head left behind in a file is legal and named in the report, like a pooler.
HEAD_PREFIXES = ("cls.", "classifier.", "qa_outputs.")
# Not weights, or weights that stand twice: buffers of old files, and the tied decoder.
COPIES = ("embeddings.position_ids", "embeddings.token_type_ids", "cls.predictions.decoder.weight")
DECODER_BIAS = "cls.predictions.decoder.bias"

# Keys of a foreign `config.json` that change nothing here.
IGNORED = frozenset(
    """_name_or_path add_cross_attention architectures bad_words_ids begin_suppress_tokens bos_token_id
    chunk_size_feed_forward classifier_dropout cross_attention_hidden_size decoder_start_token_id directionality
    diversity_penalty do_sample dtype early_stopping encoder_no_repeat_ngram_size eos_token_id
    exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id gradient_checkpointing
    id2label keras_bert label2id length_penalty max_length min_length model_type no_repeat_ngram_size num_beam_groups
    num_beams num_return_sequences output_attentions output_hidden_states output_past output_scores pooler_fc_size
    pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type prefix problem_type pruned_heads
    remove_invalid_values repetition_penalty return_dict return_dict_in_generate sep_token_id suppress_tokens
    task_specific_params temperature tf_legacy_loss tie_encoder_decoder tie_word_embeddings tokenizer_class top_k top_p
    torch_dtype torchscript transformers_version typical_p unk_token_id use_bfloat16 use_cache""".split()
)
# Keys that change the model, with the one value that BERT's encoder has.
FIXED = {"position_embedding_type": "absolute", "is_decoder": False, "is_encoder_decoder": False}
REQUIRED = "vocab_size"


@dataclasses.dataclass(frozen=True)
class Folder:
    """What a Hugging Face folder says of its model, before any weight is read.

    Args:
        config: the `BertConfig`; `pooler` says whether the file holds one.
        head: the key in `HEADS` that the folder was written for, or None for a bare encoder.
        options: options of the head's function, where we wrote the folder.
        labels: list of str in the order of the classes, or None.
        ignored: keys of `config.json` that are not known here, for the report.
    """

    path: Path
    config: BertConfig
    head: str | None
    options: dict
    labels: list[str] | None
    ignored: list[str]


def read_folder(path):
    """Reads `config.json` and the names in `model.safetensors`.

    Raises:
        ValueError: a file is missing or no JSON, the model is not a BERT, a key is a near-miss of a field, or a value
            would change the model in a way that is not built here.
    """
    path = Path(path)
    if not path.is_dir():
        raise ValueError(f"{path} is not a folder. Give the folder that holds config.json and model.safetensors.")
    values = read_json(path / "config.json")
    family = values.get("model_type", "bert")
    if family != "bert":
        raise ValueError(f"The model type {family!r} in {path / 'config.json'} is not supported; supported: bert.")
    names = weight_names(path)
    pooler = any(bare(name).startswith("pooler.") for name in names)
    config, ignored = foreign_config(values, pooler, path / "config.json")
    ours = values.get("keras_bert", {})
    head = ours["head"] if "head" in ours else _head(values.get("architectures") or [])
    return Folder(path, config, head, ours.get("options", {}), _labels(values), ignored)


def foreign_config(values, pooler, source):
    """Makes a `BertConfig` from somebody's `config.json`, with published defaults for what it leaves out.

    Returns:
        The config, and the list of keys that were not known.
    """
    fields = {field.name for field in dataclasses.fields(BertConfig)} - {"pooler"}
    ignored = []
    for key, value in values.items():
        if key in FIXED and value != FIXED[key]:
            raise ValueError(f"`{key}` must be {json.dumps(FIXED[key])} in {source}, got {json.dumps(value)}.")
        if key in fields or key in IGNORED or key in FIXED:
            continue
        if difflib.get_close_matches(key, fields, n=1, cutoff=0.85):
            raise ValueError(f"Unknown key `{key}` in {source}.{did_you_mean(key, fields)}")
        ignored.append(key)
    if REQUIRED not in values:
        raise ValueError(f"`{REQUIRED}` is missing in {source}.")
    known = {key: value for key, value in values.items() if key in fields and value is not None}
    return BertConfig(**known, pooler=pooler), ignored


def weight_names(path):
    """Gives the names in the folder's `model.safetensors`."""
    with open_safetensors(path) as file:
        return list(file.keys())


def stored_classes(path):
    """Gives how many classes the classifier in the file has, or None where there is none."""
    with open_safetensors(path) as file:
        name = f"{HEAD['logits']}.weight"
        return file.get_slice(name).get_shape()[0] if name in file.keys() else None  # noqa: SIM118 - it is no dict


def open_safetensors(path):
    """Opens `model.safetensors` for reading, checked as a whole: header, sizes, length."""
    file = Path(path) / "model.safetensors"
    if not file.is_file():
        raise ValueError(f"{path} has no model.safetensors.")
    try:
        return safe_open(file, framework="numpy")
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{file} is not a whole safetensors file: {error}.") from None


def bare(name):
    """Strips what writers put before or call differently: `bert.`, and gamma and beta of old layer norms."""
    name = name.removeprefix("bert.")
    return re.sub(r"LayerNorm\.(gamma|beta)$", lambda match: f"LayerNorm.{PARTS[match[1]]}", name)


def stored_name(path):
    """Gives the (bare) name there of a weight path here."""
    path, number = _numbered(path)
    table = ENCODER | HEAD
    if path in table:
        return table[path].replace("{i}", number)
    layer, part = path.rsplit("/", 1)
    return f"{table[layer]}.{PARTS[part]}".replace("{i}", number)


def is_head(path):
    """Tells whether a weight path here belongs to a head, not to the encoder or its pooler."""
    return stored_name(path).startswith(HEAD_PREFIXES)


def _numbered(path):
    match = re.match(r"layer_(\d+)/", path)
    return (path, "") if match is None else ("layer_{i}/" + path[match.end() :], match[1])


def read_arrays(path, weight_paths):
    """Reads the arrays for `weight_paths` from the folder.

    Returns:
        arrays: dict from weight path to array; `missing`: weight paths that the file does not hold; `unused`: names in
        the file that belong to another head.

    Raises:
        ValueError: the file holds names that belong to nothing known.
    """
    with open_safetensors(path) as file:
        names = {bare(name): name for name in file.keys()}  # noqa: SIM118 - it is no dict
        wanted = {weight_path: stored_name(weight_path) for weight_path in weight_paths}
        if DECODER_BIAS in names:  # the same array under another name, and in some files under this name alone
            names.setdefault(HEAD["mlm_bias/bias"], names[DECODER_BIAS])
        arrays = {}
        for weight_path, name in wanted.items():
            if name in names:
                array = file.get_tensor(names[name])
                arrays[weight_path] = array.T if weight_path.endswith("/kernel") and array.ndim == 2 else array
        _check_tied_decoder(file, names)
    unused = sorted(names.keys() - set(wanted.values()) - {*COPIES, DECODER_BIAS})
    unknown = [name for name in unused if not name.startswith((*HEAD_PREFIXES, "pooler."))]
    if unknown:
        near = {name: difflib.get_close_matches(name, wanted.values(), n=1) for name in unknown[:5]}
        hints = [f"{name} (near: {match[0]})" if match else name for name, match in near.items()]
        raise ValueError(f"{path} holds {len(unknown)} weights that no part of this model has: {', '.join(hints)}.")
    return arrays, sorted(wanted.keys() - arrays.keys()), unused


def _check_tied_decoder(file, names):
    decoder, embedding = "cls.predictions.decoder.weight", ENCODER["token_embedding/embeddings"]
    if decoder in names and not np.array_equal(file.get_tensor(names[decoder]), file.get_tensor(names[embedding])):
        raise ValueError(
            "The masked-LM decoder differs from the token embedding in this file; here they are one, so the head "
            "cannot be loaded."
        )


def write_folder(folder, config, head, options, labels, weights):
    """Writes `config.json` and `model.safetensors` into an existing folder, as `transformers` names them.

    Args:
        head: key in `HEADS`, or None for a bare encoder.
        weights: dict from weight path to array.
    """
    prefix = "" if ARCHITECTURES[head] == "BertModel" else "bert."
    arrays = {}
    for path, array in weights.items():
        name = stored_name(path)
        name = name if name.startswith(HEAD_PREFIXES) else prefix + name
        array = np.asarray(array)
        arrays[name] = np.ascontiguousarray(array.T if path.endswith("/kernel") else array)
    save_file(arrays, Path(folder) / "model.safetensors", metadata={"format": "pt"})
    values = {"architectures": [ARCHITECTURES[head]], "model_type": "bert", **config.to_dict()}
    del values["pooler"]
    if labels is not None:
        values["id2label"] = {str(i): label for i, label in enumerate(labels)}
        values["label2id"] = {label: i for i, label in enumerate(labels)}
    values["keras_bert"] = {"head": head, "options": options}
    with open(Path(folder) / "config.json", "w", encoding="utf-8") as file:
        json.dump(values, file, ensure_ascii=False, indent=2)
        file.write("\n")


def read_json(path):
    """Reads a JSON object, with one sentence for what may be wrong with the file."""
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path} is missing.") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not JSON in UTF-8: {error}.") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(values).__name__}.")
    return values


def _head(architectures):
    heads = {architecture: head for head, architecture in reversed(ARCHITECTURES.items())}
    return heads.get(architectures[0]) if architectures else None


def _labels(values):
    table = values.get("id2label")
    if not table:
        return None
    if sorted(map(int, table)) != list(range(len(table))):
        raise ValueError(f"`id2label` must number its labels from 0 without gaps, got {', '.join(table)}.")
    return [table[key] for key in sorted(table, key=int)]
