"""Hugging Face folders: `config.json` and the weights, in and out, for every family, heads included."""

import dataclasses
import difflib
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from keras_bert.checkpoint.containers import CONTAINERS, Stored, open_weights, written_json
from keras_bert.checkpoint.families import BUFFERS, DECODERS, FAMILIES
from keras_bert.checkpoint.sentence_transformers import Modules, read_modules, with_dense
from keras_bert.config import BertConfig, did_you_mean
from keras_bert.files import read_json

PARTS = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}

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
# Keys that change the model, with the one value that the encoder has.
FIXED = {"position_embedding_type": "absolute", "is_decoder": False, "is_encoder_decoder": False}
MULTI_LABEL = "multi_label_classification"  # `problem_type` of classifiers whose labels do not exclude each other
# Fields that no published config.json has: they follow from the family and from what the file holds.
OWN = ("pooler", "shared_layers", "position_offset", "classifier_act", "lora")


@dataclasses.dataclass(frozen=True)
class Folder:
    """What a Hugging Face folder says of its model, before any weight is read.

    Args:
        config: the `BertConfig`; `pooler` says whether the file holds one.
        head: the key in `HEADS` that the folder was written for, or None for a bare encoder.
        options: options of the head's function, where we wrote the folder.
        labels: list of str in the order of the classes, or None.
        ignored: keys of `config.json`, and things in the files, that are left out, for the report.
        stored: the weights.
        modules: what else a sentence-transformers folder says, or None; `path` is then its encoder's folder.
        tokenizer: makes the tokenizer, or gives None; itself None where the files are Hugging Face's.
    """

    path: Path
    config: BertConfig
    head: str | None
    options: dict
    labels: list[str] | None
    ignored: list[str]
    stored: Stored
    modules: Modules | None = None
    tokenizer: Callable | None = None


def recognizes(path):
    """A folder with weights, or with a `config.json` that does not lie beside a checkpoint of TensorFlow."""
    if not isinstance(path, str | Path) or not Path(path).is_dir():
        return False
    names = {file.name for file in Path(path).iterdir()}
    if not names.isdisjoint([*CONTAINERS, "modules.json"]):
        return True
    return "config.json" in names and not any(name.endswith(".index") for name in names)


def read(path):
    """Reads `config.json` and the names of the weights.

    Raises:
        ValueError: a file is missing or broken, the family is unknown, a key is a near-miss of a field, or a value
            would change the model in a way that is not built here.
    """
    path = Path(path)
    if not path.is_dir():
        raise ValueError(f"{path} is not a folder. Give the folder that holds config.json and model.safetensors.")
    modules = read_modules(path)
    path = modules.encoder if modules else path
    values = read_json(path / "config.json")
    name = values.get("model_type", "bert")
    if name not in FAMILIES:
        raise ValueError(
            f"The model type {name!r} in {path / 'config.json'} is not supported; supported: {', '.join(FAMILIES)}."
        )
    stored = open_weights(path)
    pooler = f"{FAMILIES[name].encoder.get('pooler')}.weight" in {bare(name, key) for key in stored.shapes}
    config, ignored = foreign_config(values, pooler, path / "config.json")
    ours = values.get("keras_bert", {})
    head = ours["head"] if "head" in ours else _head(name, values)
    if modules is None:
        several = head == "sequence_classifier" and values.get("problem_type") == MULTI_LABEL
        options = ours.get("options", {"multi_label": True} if several else {})
        return Folder(path, config, head, options, read_labels(values), ignored, stored)
    stored = with_dense(stored, modules)
    return Folder(path, config, "sentence_embedder", modules.options, None, ignored, stored, modules)


def foreign_config(values, pooler, source):
    """Makes a `BertConfig` from somebody's `config.json`, with published defaults for what it leaves out.

    Returns:
        The config, and the list of keys that were not known.
    """
    name = values.get("model_type", "bert")
    family = FAMILIES[name]
    keys = {
        field.name: family.keys.get(field.name, field.name)
        for field in dataclasses.fields(BertConfig)
        if field.name not in OWN and field.name != "model_type"
    }
    fixed = FIXED | family.fixed
    known = IGNORED | family.ignored | fixed.keys() | set(keys.values())
    ignored = []
    for key, value in values.items():
        if key in fixed and value != fixed[key]:
            raise ValueError(f"`{key}` must be {json.dumps(fixed[key])} in {source}, got {json.dumps(value)}.")
        if key in known:
            continue
        if difflib.get_close_matches(key, keys.values(), n=1, cutoff=0.85):
            raise ValueError(f"Unknown key `{key}` in {source}.{did_you_mean(key, keys.values())}")
        ignored.append(key)
    read = {field: values[key] for field, key in keys.items() if values.get(key) is not None}
    fields = {**family.defaults, **read}
    if "vocab_size" not in fields:
        raise ValueError(f"`vocab_size` is missing in {source}.")
    derived = {field: derive(fields) for field, derive in family.derived.items()}
    return BertConfig(**{**fields, **derived}, model_type=name, pooler=pooler), ignored


def bare(family, name):
    """Strips what writers put before or call differently: the family's name, and gamma and beta of old layer norms."""
    name = re.sub(r"^((module|model)\.)*", "", name).removeprefix(FAMILIES[family].prefix)
    name = re.sub(r"\blayer_normalization(_\d+)?\.", "LayerNorm.", name)
    return re.sub(r"(LayerNorm|layer_?norm)\.(gamma|beta)$", lambda match: f"{match[1]}.{PARTS[match[2]]}", name)


def stored_name(config, head, path):
    """Gives the bare name there of a weight path here; None where the family has no such part."""
    family = FAMILIES[config.model_type]
    table = {**family.encoder, **family.heads.get(head, {})}
    match = re.match(r"(layer|dense)_(\d+)/", path)
    patterns = [path] if match is None else [path, f"{match[1]}_{{i}}/{path[match.end() :]}"]
    for pattern in patterns:
        layer, _, part = pattern.rpartition("/")
        name = table.get(pattern) or (layer in table and f"{table[layer]}.{PARTS[part]}")
        if name:
            return name.replace("{i}", match[2]) if match else name
    return None


def full_name(config, head, path):
    """Gives the name of a weight path in a file that is written for `head`: with the family's prefix in the encoder."""
    family, name = FAMILIES[config.model_type], stored_name(config, head, path)
    bare_encoder = family.architectures[head] == "Model" or is_head(config, path)
    return name if bare_encoder else family.prefix + name


def is_head(config, path):
    """Tells whether a weight path belongs to a head, not to the encoder or its pooler."""
    return stored_name(config, None, path) is None


def find_arrays(found, head, config, weight_paths):
    """Finds the arrays for `weight_paths` in the folder.

    Returns:
        dict from weight path to (shape, function that reads the array); `missing`: weight paths that the file does not
        hold; `unused`: names in the file that belong to another head.

    Raises:
        ValueError: the file holds names that belong to nothing known, or a decoder that is not the embedding.
    """
    names = {bare(config.model_type, name): name for name in found.stored.shapes}
    wanted = {path: stored_name(config, head, path) for path in weight_paths}
    copies = _copies(config, names, found.stored)
    arrays = {
        path: _reader(found.stored, names[name], path.endswith("/kernel"))
        for path, name in wanted.items()
        if name in names
    }
    unused = sorted(names.keys() - set(wanted.values()) - copies)
    unknown = [name for name in unused if not name.startswith(_legal_leftovers(config.model_type))]
    if unknown:
        near = difflib.get_close_matches(unknown[0], set(filter(None, wanted.values())), n=5, cutoff=0)
        raise ValueError(
            f"{found.path} holds {len(unknown)} weights that no part of this model has: {', '.join(unknown[:5])}. "
            f"The nearest names to {unknown[0]}: {', '.join(near)}."
        )
    return arrays, sorted(wanted.keys() - arrays.keys()), unused


def _reader(stored, name, is_kernel):
    shape = tuple(stored.shapes[name])
    if is_kernel and len(shape) == 2:
        return shape[::-1], lambda: stored.read(name).T
    return shape, lambda: stored.read(name)


def _copies(config, names, stored):
    """Names of buffers, and of arrays that repeat others; a decoder's bias also stands in for the head's own."""
    family, copies = FAMILIES[config.model_type], {name for name in BUFFERS if name in names}
    embedding = family.encoder["token_embedding/embeddings"]
    for decoder in DECODERS:
        weight, bias = f"{decoder}.weight", f"{decoder}.bias"
        if weight in names:
            if not np.array_equal(stored.read(names[weight]), stored.read(names[embedding])):
                raise ValueError(
                    f"{weight} differs from the token embedding in {stored.file}; here they are one, so the head "
                    "cannot be loaded."
                )
            copies.add(weight)
        own = family.heads["masked_language_model"]["mlm_bias/bias"]
        if bias in names and bias != own:
            names[own] = names[bias]  # where there are two, this is the one that is added
            copies.add(bias)
    return copies


def _legal_leftovers(family):
    """How names begin that another head, or the pooler, may leave behind in a file."""
    family = FAMILIES[family]
    names = [name for table in family.heads.values() for name in table.values()]
    if "pooler" in family.encoder:
        names.append(family.encoder["pooler"])
    return tuple(name.split("{i}")[0] for name in names)


def write_folder(folder, config, head, options, labels, weights):
    """Writes `config.json` and `model.safetensors` into an existing folder, as `transformers` names them.

    Args:
        head: key in `HEADS`, or None for a bare encoder.
        weights: dict from weight path to array.

    Raises:
        ValueError: the family has no such head there.
    """
    family = FAMILIES[config.model_type]
    if head not in family.architectures:
        raise ValueError(f"`transformers` has no {head} for {config.model_type}, so it cannot be saved as one.")
    architecture = family.title + family.architectures[head]
    arrays = {}
    for path, array in weights.items():
        array, name = np.asarray(array), full_name(config, head, path)
        arrays[name] = np.ascontiguousarray(array.T if path.endswith("/kernel") else array)
    save_file(arrays, Path(folder) / "model.safetensors", metadata={"format": "pt"})
    with written_json(Path(folder) / "config.json") as values:
        values.update({"architectures": [architecture], "model_type": config.model_type})
        for field, value in dataclasses.asdict(config).items():
            if field in OWN or (field == "type_vocab_size" and not value):
                continue
            if field == "embedding_size":
                if "embedding_size" not in family.defaults:
                    continue
                value = config.embedding_width
            values[family.keys.get(field, field)] = value
        if head in ("sequence_regressor", "reranker"):
            values["id2label"], values["problem_type"] = {"0": "LABEL_0"}, "regression"
        if options.get("multi_label"):
            values["problem_type"] = MULTI_LABEL
        if labels is not None:
            values["id2label"] = {str(i): label for i, label in enumerate(labels)}
            values["label2id"] = {label: i for i, label in enumerate(labels)}
        # of an embedder, modules.json tells
        embedder = head == "sentence_embedder"
        values["keras_bert"] = {"head": None, "options": {}} if embedder else {"head": head, "options": options}


def stored_classes(found, head):
    """Gives how many classes the classifier in the file has, or None where there is none."""
    name = f"{FAMILIES[found.config.model_type].heads[head]['logits']}.weight"
    shapes = {bare(found.config.model_type, key): shape for key, shape in found.stored.shapes.items()}
    return shapes[name][0] if name in shapes else None


def _head(family, values):
    """The head that `architectures` names; one label means a number, not a class."""
    names = values.get("architectures") or [""]
    for head, architecture in FAMILIES[family].architectures.items():
        if names[0] == FAMILIES[family].title + architecture:
            single = head == "sequence_classifier" and len(values.get("id2label") or "12") == 1
            return "sequence_regressor" if single else head
    return None


def read_labels(values):
    """Gives the labels of a `config.json` in the order of the classes, or None."""
    table = values.get("id2label")
    if not table:
        return None
    if sorted(map(int, table)) != list(range(len(table))):
        raise ValueError(f"`id2label` must number its labels from 0 without gaps, got {', '.join(table)}.")
    return [table[key] for key in sorted(table, key=int)]
