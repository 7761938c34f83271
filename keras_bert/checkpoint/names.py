"""Arrays that another library named, given Hugging Face's names, which are the ones that are read here."""

from keras_bert.checkpoint.containers import Stored
from keras_bert.checkpoint.families import FAMILIES


def every_name(family, num_layers):
    """Gives the name of every weight that an encoder of the family, or any of its heads, may have; without the prefix.

    Args:
        family: key in `FAMILIES`.
    """
    family = FAMILIES[family]
    found = {}
    # an embedder's dense layers are sentence-transformers' alone
    heads = [table for head, table in family.heads.items() if head != "sentence_embedder"]
    for table in (family.encoder, *heads):
        for name in table.values():
            whole = name.endswith((".weight", ".bias"))
            for full in [name] if whole else [f"{name}.weight", f"{name}.bias"]:
                layers = range(num_layers) if "{i}" in full else range(1)
                found |= {full.replace("{i}", str(i)): None for i in layers}
    return list(found)


def renamed(file, arrays):
    """Gives arrays under Hugging Face's names.

    Args:
        file: for messages.
        arrays: dict from name to (shape, function that reads the array); the shape may be another one than the array's,
            of equal size.
    """
    shapes = {name: tuple(shape) for name, (shape, _) in arrays.items()}
    return Stored(file, shapes, lambda name: arrays[name][1]().reshape(shapes[name]))


def turned(shape, read):
    """A kernel (in, out) as the weight (out, in) that torch has."""
    return tuple(shape)[::-1], lambda: read().T


def head_of(family, names):
    """Tells which head was trained, by the names in the file: the key in `HEADS`, or None.

    Args:
        family: key in `FAMILIES`.
        names: Hugging Face's names, without the prefix.
    """
    heads = FAMILIES[family].heads
    masked = heads["masked_language_model"]["mlm_bias/bias"] in names
    pairs = f"{heads['next_sentence']['nsp']}.weight" in names
    if masked or pairs:
        return "pretraining_model" if masked and pairs else "masked_language_model" if masked else "next_sentence"
    for head in ("span_extractor", "sequence_classifier"):
        if f"{heads[head]['logits']}.weight" in names:
            return head
    return None
