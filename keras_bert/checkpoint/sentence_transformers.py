"""What sentence-transformers keeps beside an encoder: the modules after it, in and out."""

import dataclasses
import json
from pathlib import Path, PurePosixPath

import numpy as np
from safetensors.numpy import save_file

from keras_bert.checkpoint.containers import Stored, open_weights, written_json
from keras_bert.files import read_json

POOLINGS = {
    "mean": "mean_tokens",
    "cls": "cls_token",
    "max": "max_tokens",
    "mean_sqrt_len": "mean_sqrt_len_tokens",
    "lasttoken": "lasttoken",
}
# the names of newer versions, where they differ from ours
NEW_POOLINGS = {"mean_sqrt_len_tokens": "mean_sqrt_len"}
ACTIVATIONS = {
    "tanh": "torch.nn.modules.activation.Tanh",
    "relu": "torch.nn.modules.activation.ReLU",
    "gelu": "torch.nn.modules.activation.GELU",
    "sigmoid": "torch.nn.modules.activation.Sigmoid",
    "identity": "torch.nn.modules.linear.Identity",
}
TYPES = "sentence_transformers.models."


@dataclasses.dataclass(frozen=True)
class Modules:
    """What a folder says of its sentence embedder.

    Args:
        encoder: folder of the encoder and its tokenizer.
        options: options of `sentence_embedder`.
        max_length: tokens of a text, or None.
        lowercase: whether texts are lower-cased before they are tokenized.
        dense: the weights of the dense layers, in order.
    """

    encoder: Path
    options: dict
    max_length: int | None
    lowercase: bool
    dense: list[Stored]


def read_modules(folder):
    """Reads modules.json and what it names; None where there is none.

    Raises:
        ValueError: the modules are not an encoder, a pooling, any number of dense layers, and at most one
            normalization, in this order; or one of them does what is not built here.
    """
    if not (folder / "modules.json").is_file():
        return None
    modules = _listed(folder)
    kinds = [kind for kind, _ in modules]
    after = kinds[2:-1] if kinds[-1] == "Normalize" else kinds[2:]
    if kinds[:2] != ["Transformer", "Pooling"] or set(after) - {"Dense"}:
        raise ValueError(
            f"{folder / 'modules.json'} must list Transformer, Pooling, and then Dense layers or a Normalize, got "
            f"{', '.join(kinds)}."
        )
    _refuse_prompt(folder)
    encoder = modules[0][1]
    settings = read_json(encoder / "sentence_bert_config.json") if _has(encoder, "sentence_bert_config.json") else {}
    folders = [path for kind, path in modules if kind == "Dense"]
    options = {"pooling": _pooling(modules[1][1] / "config.json"), "normalize": kinds[-1] == "Normalize"}
    if folders:
        options["dense"] = [_dense(path / "config.json") for path in folders]
    if settings.get("transformer_task", "feature-extraction") != "feature-extraction":
        raise ValueError(
            f"`transformer_task` must be feature-extraction in {encoder}, got {settings['transformer_task']}."
        )
    length = _max_length(encoder, settings)
    return Modules(
        encoder, options, length, bool(settings.get("do_lower_case")), [open_weights(path) for path in folders]
    )


def with_dense(stored, modules):
    """Adds the dense layers' weights to the encoder's, as `dense.0.linear.weight` and so on."""
    places = {f"dense.{i}.{name}": (part, name) for i, part in enumerate(modules.dense) for name in part.shapes}
    shapes = {**stored.shapes, **{name: part.shapes[there] for name, (part, there) in places.items()}}

    def read(name):
        part, there = places.get(name, (stored, name))
        return part.read(there)

    return Stored(stored.file, shapes, read)


def write_modules(folder, config, options, max_length, weights):
    """Writes the modules after the encoder into an existing folder.

    Args:
        weights: dict from weight path to array, of the whole embedder.

    Returns:
        Those of `weights` that are the encoder's.
    """
    modules = [("Transformer", "")]
    path = _folder(folder, modules, "Pooling")
    pooling = options.get("pooling", "mean")
    with written_json(path / "config.json") as values:
        values["word_embedding_dimension"] = config.hidden_size
        values.update({f"pooling_mode_{name}": pooling == ours for ours, name in POOLINGS.items()})
    for i, layer in enumerate(options.get("dense", ())):
        path = _folder(folder, modules, "Dense")
        kernel = np.asarray(weights[f"dense_{i}/kernel"])
        arrays = {"linear.weight": np.ascontiguousarray(kernel.T)}
        if layer.get("bias", True):
            arrays["linear.bias"] = np.asarray(weights[f"dense_{i}/bias"])
        save_file(arrays, path / "model.safetensors", metadata={"format": "pt"})
        with written_json(path / "config.json") as values:
            values["in_features"], values["out_features"] = kernel.shape
            values["bias"] = layer.get("bias", True)
            values["activation_function"] = ACTIVATIONS[layer.get("activation", "tanh")]
    if options.get("normalize", True):
        _folder(folder, modules, "Normalize")
    with open(folder / "modules.json", "w", encoding="utf-8") as file:
        rows = enumerate(modules)
        json.dump([{"idx": i, "name": str(i), "path": p, "type": TYPES + k} for i, (k, p) in rows], file, indent=2)
    if max_length is not None:
        with written_json(folder / "sentence_bert_config.json") as values:
            values.update({"max_seq_length": max_length, "do_lower_case": False})
    return {path: weight for path, weight in weights.items() if not path.startswith("dense_")}


def _folder(folder, modules, kind):
    path = folder / f"{len(modules)}_{kind}"
    path.mkdir()
    modules.append((kind, path.name))
    return path


def _listed(folder):
    """The modules in their order, as (kind, folder)."""
    file = folder / "modules.json"
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
        rows = [(row["type"].rpartition(".")[2], row["path"]) for row in rows]
        paths = [PurePosixPath(path) for _, path in rows]
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{file} must be a JSON list of modules with `type` and `path`.") from None
    for path in paths:
        if path.is_absolute() or ".." in path.parts or "\\" in str(path):
            raise ValueError(f"{file} must name folders beside it, got {str(path)!r}.")
    if not rows:
        raise ValueError(f"{file} must list at least an encoder and a pooling, got nothing.")
    return [(kind, folder / path) for (kind, _), path in zip(rows, paths, strict=True)]


def _has(folder, name):
    return (folder / name).is_file()


def _max_length(encoder, settings):
    """`max_seq_length`, or since version 6 the tokenizer's `model_max_length`, which is astronomic for none."""
    key, file = "max_seq_length", encoder / "sentence_bert_config.json"
    if settings.get(key) is None and _has(encoder, "tokenizer_config.json"):
        key, file = "model_max_length", encoder / "tokenizer_config.json"
        settings = read_json(file)
    length = settings.get(key)
    if length is None or (isinstance(length, int | float) and length > 1e9):
        return None
    if type(length) is not int or length < 3:
        raise ValueError(f"`{key}` must be an integer of at least 3 in {file}, got {length!r}.")
    return length


def _refuse_prompt(folder):
    """A prompt stands before every text, which `predict` would not do."""
    file = folder / "config_sentence_transformers.json"
    name = read_json(file).get("default_prompt_name") if file.is_file() else None
    if name is not None:
        raise ValueError(
            f"`default_prompt_name` must be null in {file}, got {name!r}. Put the prompt before the texts."
        )


def _pooling(file):
    values = read_json(file)
    if "pooling_mode" in values:
        modes = values["pooling_mode"]
        modes = [modes] if isinstance(modes, str) else list(modes)
    else:
        modes = [
            key.removeprefix("pooling_mode_") for key, on in values.items() if key.startswith("pooling_mode_") and on
        ]
        modes = [{there: ours for ours, there in POOLINGS.items()}.get(mode, mode) for mode in modes] or ["mean"]
    modes = [NEW_POOLINGS.get(mode, mode) for mode in modes]
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise ValueError(f"The pooling in {file} must be one of {', '.join(POOLINGS)}, got {' and '.join(modes)}.")
    return modes[0]


def _dense(file):
    values = read_json(file)
    activation = values.get("activation_function", ACTIVATIONS["tanh"])
    known = {there.rpartition(".")[2]: ours for ours, there in ACTIVATIONS.items()}
    name = str(activation).rpartition(".")[2].removesuffix("()")
    if name not in known:
        raise ValueError(f"`activation_function` must be one of {', '.join(known)} in {file}, got {activation}.")
    fixed = {
        "use_residual": False,
        "module_input_name": "sentence_embedding",
        "module_output_name": "sentence_embedding",
    }
    for key, value in fixed.items():
        if values.get(key) not in (None, value):
            raise ValueError(f"`{key}` must be {json.dumps(value)} in {file}, got {json.dumps(values[key])}.")
    units = values.get("out_features")
    if type(units) is not int or units < 1:
        raise ValueError(f"`out_features` must be a positive integer in {file}, got {units!r}.")
    return {"units": units, "activation": known[name], "bias": bool(values.get("bias", True))}
