"""Where models come from: the kinds of checkpoint, each told by what it holds."""

from pathlib import Path

from keras_bert.checkpoint import google, google_electra, hub, huggingface, keras_hub, model_garden
from keras_bert.checkpoint.families import FAMILIES
from keras_bert.files import read_json

# in the order in which they are asked
SOURCES = {
    "keras_hub": keras_hub,
    "huggingface": huggingface,
    "model_garden": model_garden,
    "google_electra": google_electra,
    "google": google,
}


def kind_of(source):
    """Gives the key in `SOURCES` of what `source` is.

    Args:
        source: a folder, a checkpoint's prefix, an id of the Hugging Face hub, or a live KerasHub model.

    Raises:
        ValueError: it is none of them, or two files in it contradict each other.
    """
    source = hub.located(source)
    for kind, module in SOURCES.items():
        if module.recognizes(source):
            if isinstance(source, str | Path):
                _check_agreement(Path(source))
            return kind
    if not isinstance(source, str | Path):
        raise ValueError(f"`source` must be a folder or a BertBackbone, got {type(source).__name__}.")
    if not Path(source).is_dir():
        raise ValueError(f"{source} is not a folder. Give the folder that holds config.json and model.safetensors.")
    raise ValueError(
        f"{source} holds no model: neither config.json (Hugging Face, KerasHub), nor bert_config.json or a "
        "checkpoint's .index (Google, Model Garden), nor saved_model.pb (TF Hub)."
    )


def read(source):
    """Reads what `source` says of its model; the weights follow when they are asked for.

    Returns:
        A `huggingface.Folder`.
    """
    source = hub.located(source)
    return SOURCES[kind_of(source)].read(source)


def heads_in(found):
    """Gives the heads whose weights are all in a file, as keys in `HEADS`; of those with equal weights the first.

    Args:
        found: a `huggingface.Folder`.
    """
    family = FAMILIES[found.config.model_type]
    names = {huggingface.bare(found.config.model_type, name) for name in found.stored.shapes}
    heads = [found.head] if found.head in family.heads else []
    tables = [family.heads[head] for head in heads]
    for head, table in family.heads.items():
        whole = all({name, f"{name}.weight"} & names for name in table.values())
        if whole and table not in tables and "{i}" not in "".join(table.values()):
            heads.append(head)
            tables.append(table)
    return heads


def _check_agreement(folder):
    """config.json and bert_config.json in one folder may not contradict each other."""
    files = [folder / "config.json", folder / "bert_config.json"]
    if not all(file.is_file() for file in files):
        return
    ours, google_s = (read_json(file) for file in files)
    differing = sorted(key for key in ours.keys() & google_s.keys() - huggingface.IGNORED if ours[key] != google_s[key])
    if differing:
        key = differing[0]
        raise ValueError(
            f"config.json and bert_config.json in {folder} must agree, "
            f"got {ours[key]!r} and {google_s[key]!r} for `{key}`. Remove the one that is not this model's."
        )
