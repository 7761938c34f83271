"""From one kind of checkpoint to another, with the proof: what was written is read back and compared."""

import json
import os
from pathlib import Path

import keras
import numpy as np
from safetensors.numpy import load_file, save_file

from keras_bert import bundle as bundles
from keras_bert.checkpoint import google, huggingface, keras_hub, sources
from keras_bert.checkpoint.families import FAMILIES
from keras_bert.config import did_you_mean
from keras_bert.encoder import config_of
from keras_bert.files import check_replaceable, replace_file, replace_folder

ALLOWED = 1e-5  # largest difference of any output; the same arrays in the same model give 0
REPORT = "conversion.json"


def _write_huggingface(bundle, path, allow_activation_change, others):
    bundles.save(bundle, path)
    if not others:
        return
    family, file = FAMILIES[bundle.config.model_type], path / "model.safetensors"
    prefix = "" if family.architectures[bundle.head] == "Model" else family.prefix
    encoder = tuple(name.split("{i}")[0] for name in family.encoder.values())
    arrays = load_file(file)
    for name, array in others.items():
        arrays[f"{prefix}{name}" if name.startswith(encoder) else name] = np.ascontiguousarray(array)
    save_file(arrays, file, metadata={"format": "pt"})


def _write_google(bundle, path, allow_activation_change, others):
    google.write(bundle, path, allow_activation_change, others)


def _write_keras_hub(bundle, path, allow_activation_change, others):
    keras_hub.write(bundle, path, allow_activation_change, others)


def _write_keras(bundle, path, allow_activation_change, others):
    named = path.with_suffix(".keras")  # Keras insists on it
    bundle.model.save(named)
    os.replace(named, path)


TARGETS = {
    "huggingface": _write_huggingface,
    "google": _write_google,
    "keras_hub": _write_keras_hub,
    "keras": _write_keras,
}
KEEPING = ("huggingface", "google", "keras_hub")  # these have names for weights that the head does not need


def convert(source, target, to="huggingface", head=None, allow_activation_change=False):
    """Reads a model of any kind and writes it as another, compared before it takes its place.

    Args:
        source: what `keras_bert.load` takes.
        target: a folder, replaced whole if it holds a model; for `to="keras"` a file that ends in .keras.
        to: key in `TARGETS`.
        head: key in `HEADS`, or "encoder", as in `load`; what it does not need is then left out. Without it, weights of
            other heads are kept too, where the target has names for them.
        allow_activation_change: whether exact gelu may become the tanh form where the target has only that.

    Returns:
        A dict, which is also written: to conversion.json in the folder, or beside the .keras file.

    Raises:
        ValueError: the source cannot be read, the target has no such model, or what was written differs.
    """
    if to not in TARGETS:
        raise ValueError(f"Unknown target `{to}`.{did_you_mean(to, TARGETS)} Known: {', '.join(TARGETS)}.")
    target = Path(target)
    _check_target(source, target, to)
    kind = sources.kind_of(source)
    bundle = bundles.load(source, head=head)
    others = _others(source, bundle) if head is None and to in KEEPING else {}
    with (replace_file if to == "keras" else replace_folder)(target) as temporary:
        TARGETS[to](bundle, temporary, allow_activation_change, others)
        model = _read_back(temporary, bundle, to)
        report = {"source": str(source), "kind": kind, "to": to} | _compared(bundle, model)
        if others:
            _add_others(report, others, _others(temporary, bundle))
        difference, changed = report["largest_difference"], report["activation"]["from"] != report["activation"]["to"]
        if not difference <= ALLOWED and not (changed and allow_activation_change):
            raise ValueError(
                f"The {to} model disagrees with its source: max difference {difference:.2e}, allowed {ALLOWED:.0e}. "
                f"{target} was not written."
            )
        other = report["arrays"] - report["arrays_bit_equal"]
        if other:
            raise ValueError(
                f"The {to} model holds {other} of {report['arrays']} arrays otherwise than its source. "
                f"{target} was not written."
            )
        text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
        if to != "keras":
            (temporary / REPORT).write_text(text, encoding="utf-8")
    if to == "keras":
        with replace_file(target.with_name(f"{target.name}.{REPORT}")) as file:
            file.write_text(text, encoding="utf-8")
    return report


def _check_target(source, target, to):
    if to == "keras":
        if target.suffix != ".keras":
            raise ValueError(f"A Keras file must end in .keras, got {target}.")
        return
    if isinstance(source, str | Path) and target.resolve() in (Path(source).resolve(), *Path(source).resolve().parents):
        raise ValueError(f"The target must be another place than the source, got {target} for both.")
    check_replaceable(target)


def _read_back(path, bundle, to):
    """The model that was written."""
    if to == "keras":
        named = path.with_suffix(".keras")
        os.replace(path, named)
        try:
            return keras.models.load_model(named)
        finally:
            os.replace(named, path)
    return bundles.load(path, head=bundle.head or "encoder").model


def _others(source, bundle):
    """Weights in the source that the bundle's head does not need: Hugging Face's name -> array."""
    found = sources.read(source)
    names = {huggingface.bare(bundle.config.model_type, name): name for name in found.stored.shapes}
    return {name: found.stored.read(names[name]) for name in bundle.report.unused if name in names}


def _add_others(report, others, again):
    report["kept"] = [name for name in others if name in again]
    report["unused"] = [name for name in others if name not in again]
    report["arrays"] += len(report["kept"])
    report["arrays_bit_equal"] += sum(np.array_equal(others[name], again[name]) for name in report["kept"])


def _compared(bundle, model):
    """What the report says of a bundle and of the model that was read back."""
    ours, theirs = ({weight.path: np.asarray(weight.value) for weight in m.weights} for m in (bundle.model, model))
    equal = [path for path, array in ours.items() if path in theirs and np.array_equal(array, theirs[path])]
    features = probes(bundle)
    made, again = (keras.tree.flatten(m(features)) for m in (bundle.model, model))
    differences = [
        float(np.abs(keras.ops.convert_to_numpy(a) - keras.ops.convert_to_numpy(b)).max())
        for a, b in zip(made, again, strict=True)
    ]
    config = config_of(model)
    return {
        "family": bundle.config.model_type,
        "head": bundle.head,
        "parameters": bundle.model.count_params(),
        "arrays": len(ours),
        "arrays_bit_equal": len(equal),
        "largest_difference": max(differences),
        "allowed": ALLOWED,
        "probe_shape": list(features["token_ids"].shape),
        "activation": {"from": bundle.config.hidden_act, "to": config.hidden_act},
        "unused": bundle.report.unused,
        "ignored": bundle.report.ignored,
    }


def probes(bundle, batch=4):
    """Random ids with padding, for any head's model: (B, T) int32, or (B, 2, T) for a choice; always the same."""
    config, rng = bundle.config, np.random.default_rng(20181011)
    length = min(32, config.max_length)
    shape = (batch, 2, length) if bundle.head == "multiple_choice" else (batch, length)
    lengths = rng.integers(1, length + 1, shape[:-1])
    lengths[0] = length
    mask = (np.arange(length) < lengths[..., None]).astype("int32")
    ids = np.where(mask, rng.integers(0, config.vocab_size, shape), config.pad_token_id)
    segments = rng.integers(0, max(1, config.type_vocab_size), shape) * mask
    features = {"token_ids": ids.astype("int32"), "segment_ids": segments.astype("int32"), "padding_mask": mask}
    if "masked_positions" in bundle.model.input:
        features["masked_positions"] = (lengths[:, None] // 2).astype("int32")
    return features
