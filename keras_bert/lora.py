"""LoRA: a bundle with adapters of low rank beside frozen weights; adapters as small files, which `peft` opens."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from keras_bert.bundle import create
from keras_bert.checkpoint.assign import weights_from
from keras_bert.checkpoint.containers import written_json
from keras_bert.checkpoint.huggingface import full_name, is_head
from keras_bert.config import PROJECTIONS, Lora
from keras_bert.encoder import block_names
from keras_bert.files import read_json, replace_folder
from keras_bert.projections import product, without_adapters

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
PREFIX = "base_model.model."  # as `peft` has it
LAYERS = {"attention_output": "attention/output"} | {name: f"attention/{name}" for name in ("query", "key", "value")}
TASKS = {
    "sequence_classifier": "SEQ_CLS",
    "sequence_regressor": "SEQ_CLS",
    "reranker": "SEQ_CLS",
    "token_classifier": "TOKEN_CLS",
    "span_extractor": "QUESTION_ANS",
    None: "FEATURE_EXTRACTION",
    "sentence_embedder": "FEATURE_EXTRACTION",
}
# What `peft` can write and is not built here, with the values that change nothing.
FIXED = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    "fan_in_fan_out": (False,),
    "use_rslora": (None, False),
    "use_dora": (None, False),
    "rank_pattern": (None, {}),
    "alpha_pattern": (None, {}),
}


def add_lora(bundle, rank=8, alpha=16.0, dropout=0.0, targets=("query", "value")):
    """Gives a bundle whose encoder is frozen and has adapters; they and the head, with its pooler, train.

    The adapters start as zero: the answers are those of `bundle`, which stays as it is. `keras_bert.save` and exports
    merge them; `.keras` files keep them apart.

    Args:
        rank, alpha, dropout, targets: as in `config.Lora`.

    Raises:
        ValueError: the bundle has adapters, or a value is out of range.

    Source: Hu et al. 2021.
    """
    if bundle.config.lora is not None:
        raise ValueError("The bundle must have no adapters yet. Use `lora.merge` first.")
    weights = {weight.path: weight for weight in bundle.model.weights}
    return _rebuilt(bundle, Lora(rank, alpha, dropout, targets), weights)


def merge(bundle):
    """Gives a bundle without adapters and with the same answers: each is added to its dense layer.

    Raises:
        ValueError: it has none.
    """
    lora = _lora(bundle)
    return _rebuilt(bundle, None, without_adapters({weight.path: weight for weight in bundle.model.weights}, lora))


def unmerge(bundle, folder):
    """Takes merged adapters out of a bundle again, and gives one that has them beside the frozen weights.

    Args:
        folder: what `save_adapter` wrote of the adapters that were merged.
    """
    made = load_adapter(bundle, folder)
    weights = {weight.path: weight for weight in made.model.weights}
    for path in weights:
        if path.endswith("/lora_a"):
            layer = path.removesuffix("lora_a")
            weights[f"{layer}kernel"].assign_sub(product(weights, layer, made.config.lora))
    return made


def save_adapter(bundle, folder):
    """Writes the adapters and the head, not the encoder, as `peft` has them: adapter_model.safetensors and a JSON file.

    Raises:
        ValueError: the bundle has no adapters.
    """
    lora, head, config = _lora(bundle), bundle.head, bundle.config
    names = {weight.path: _name(config, head, weight.path) for weight in bundle.model.weights}
    arrays = {names[weight.path]: _turned(weight.path, weight) for weight in bundle.model.weights if names[weight.path]}
    stems = [name.removeprefix(PREFIX) for name in arrays]
    ours = {"format": "pt", "keras_bert": json.dumps({"head": head, "labels": bundle.labels})}
    with replace_folder(folder) as temporary:
        save_file(arrays, temporary / WEIGHTS, metadata=ours)
        with written_json(temporary / CONFIG) as values:
            values.update(
                peft_type="LORA",
                task_type=TASKS.get(head),
                r=lora.rank,
                lora_alpha=lora.alpha,
                lora_dropout=lora.dropout,
                target_modules=[stem.removesuffix(".lora_A.weight") for stem in stems if ".lora_A." in stem],
                modules_to_save=sorted({_module(config, stem) for stem in stems if ".lora_" not in stem}) or None,
                bias="none",
                fan_in_fan_out=False,
                inference_mode=True,
                base_model_name_or_path=None,
            )


def load_adapter(bundle, folder):
    """Gives a bundle with the adapters, and the head, of a folder that `save_adapter` or `peft` wrote.

    Args:
        bundle: of the base model that they were trained on, with the same head, which may be a fresh one.

    Raises:
        ValueError: a file is missing or broken, the adapters are for another model or head, or of a kind that is not
            built here.
    """
    folder, config = Path(folder), bundle.config
    if config.lora is not None:
        raise ValueError("The bundle must have no adapters: load the base model for them.")
    values = read_json(folder / CONFIG)
    for key, allowed in FIXED.items():
        if values.get(key, allowed[0]) not in allowed:
            raise ValueError(f"`{key}` must be {allowed[0]!r} in {folder / CONFIG}, got {values[key]!r}.")
    arrays, ours = _read(folder / WEIGHTS)
    for name, value in (("head", bundle.head), ("labels", bundle.labels)):
        if name in ours and ours[name] != value:
            raise ValueError(f"The adapter in {folder} is for the {name} {ours[name]!r}, the bundle has {value!r}.")
    found = {
        name
        for block in block_names(config)
        for name in PROJECTIONS
        if _name(config, bundle.head, f"{block}/{LAYERS.get(name, name)}/lora_a") in arrays
    }
    try:
        lora = Lora(values["r"], values["lora_alpha"], values.get("lora_dropout", 0.0), tuple(sorted(found)))
    except KeyError as error:
        raise ValueError(f"{error} is missing in {folder / CONFIG}.") from None
    made = _rebuilt(bundle, lora, {weight.path: weight for weight in bundle.model.weights})
    wanted = {_name(config, bundle.head, weight.path): weight for weight in made.model.weights}
    wanted.pop(None, None)
    unknown = sorted(arrays.keys() - wanted.keys())
    lost = sorted(name for name in wanted.keys() - arrays.keys() if ".lora_" in name)
    if unknown or lost:
        raise ValueError(f"{folder / WEIGHTS} does not fit the model. Unknown there: {unknown}. Missing: {lost}.")
    for name, array in arrays.items():
        value = _turned(wanted[name].path, array)
        if value.shape != tuple(wanted[name].shape):
            raise ValueError(f"{name} in {folder / WEIGHTS} must be of another shape: the model has another base.")
        wanted[name].assign(value)
    return made


def _rebuilt(bundle, lora, weights):
    """The bundle with another `config.lora`, and with weights of its own that start as `weights`, by path."""
    config = dataclasses.replace(bundle.config, lora=lora)
    with weights_from() as start:
        model = create(config, bundle.tokenizer, bundle.head, bundle.labels, **bundle.options).model
        start(model, {path: (value.shape, lambda value=value: np.asarray(value)) for path, value in weights.items()})
    return dataclasses.replace(bundle, model=model, config=config)


def _lora(bundle):
    if bundle.config.lora is None:
        raise ValueError("The bundle has no adapters. `lora.add_lora` or `lora.load_adapter` gives one that has.")
    return bundle.config.lora


def _name(config, head, path):
    """What `peft` calls a weight that an adapter's file holds; None for the others."""
    layer, _, part = path.rpartition("/")
    if part in ("lora_a", "lora_b"):
        name = full_name(config, head, f"{layer}/kernel").removesuffix("weight")
        return f"{PREFIX}{name}lora_{part[-1].upper()}.weight"
    return PREFIX + full_name(config, head, path) if is_head(config, path) or path.startswith("pooler/") else None


def _module(config, stem):
    """The module that `peft` copies for a weight of the head: all of the head's, or the pooler."""
    found = re.search(r"(^|\.)pooler\.", stem)
    return "pooler" if found else stem.split(".")[0]


def _turned(path, value):
    """An array as torch has it, (out, in), or back."""
    value = np.asarray(value)
    turned = value.ndim == 2 and path.endswith(("/kernel", "/lora_a", "/lora_b"))
    return np.ascontiguousarray(value.T if turned else value)


def _read(file):
    """The arrays of a safetensors file, and what `save_adapter` noted in it."""
    try:
        with safe_open(file, framework="numpy") as opened:
            ours = json.loads((opened.metadata() or {}).get("keras_bert", "{}"))
            return {name: opened.get_tensor(name) for name in opened.keys()}, ours  # noqa: SIM118 - it is no dict
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{file} is not a whole safetensors file: {error}.") from None
