"""Checkpoints of TensorFlow, read and written by TensorFlow without running a graph."""

import functools
import re
import typing
from collections.abc import Callable
from pathlib import Path

GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"  # in checkpoints that are named by objects (TF2)
SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


class Variable(typing.NamedTuple):
    """A variable of a checkpoint.

    Attributes:
        key: where it is in the file; in TF2 a path through objects.
        read: gives the array.
    """

    key: str
    shape: tuple
    read: Callable


def find(path):
    """Gives the checkpoint that `path` is or holds, as the prefix of its files; None where there is none.

    Raises:
        ValueError: the folder holds several and does not say which is the last.
    """
    path = Path(path)
    if path.with_name(path.name + ".index").is_file():
        return path
    if not path.is_dir():
        return None
    folder = path / "variables" if (path / "saved_model.pb").is_file() else path
    found = sorted(file.with_suffix("") for file in folder.glob("*.index"))
    if len(found) > 1:
        last = _last(folder)
        if last not in found:
            names = ", ".join(prefix.name for prefix in found[:5])
            raise ValueError(f"{folder} holds {len(found)} checkpoints: {names}. Give one: {found[-1]}.")
        return last
    return found[0] if found else None


def _last(folder):
    state = folder / "checkpoint"
    text = state.read_text(encoding="utf-8") if state.is_file() else ""
    match = re.search(r'^model_checkpoint_path: "(.*)"', text, re.MULTILINE)
    return folder / Path(match[1]).name if match else None


def read(prefix):
    """Opens a checkpoint.

    Returns:
        dict from name to `Variable`. For a checkpoint that is named by objects the names are the variables' own.
        list of what was left out: optimizer slots, counters and bookkeeping.

    Raises:
        ValueError: a file of it is missing or broken.
    """
    import tensorflow as tf

    _check_shards(prefix)
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        shapes = reader.get_variable_to_shape_map()
        named = _object_names(reader) if GRAPH in shapes else {key: key for key in shapes}
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"{prefix} is not a whole TensorFlow checkpoint: {reason}.") from None
    found, left_out, slots = {}, [], 0
    for key, name in sorted(named.items()):
        if is_slot(key):
            slots += 1
        elif not shapes[key]:  # no weight is a single number: a counter, or a setting
            left_out.append(key.removesuffix(SUFFIX))
        else:
            found[name] = Variable(key, tuple(shapes[key]), functools.partial(_array, reader, prefix, key))
    if slots:
        left_out.append(f"{slots} optimizer slots")
    return found, left_out


def names(prefix):
    """Lists the names in a checkpoint, as they are in the file; none where it cannot be read."""
    import tensorflow as tf

    try:
        return list(tf.train.load_checkpoint(str(prefix)).get_variable_to_shape_map())
    except (tf.errors.OpError, RuntimeError, ValueError):
        return []


def setting(prefix, name):
    """Reads a single number or string of a checkpoint that is named by objects; None where it has no such."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(prefix))
    return reader.get_tensor(name + SUFFIX) if reader.has_tensor(name + SUFFIX) else None


def has_objects(prefix):
    """Tells whether the checkpoint is named by objects, as TF2 writes it."""
    return GRAPH in names(prefix)


def write(prefix, arrays):
    """Writes a checkpoint with the names of `arrays`, as TF1's `Saver` does; the graph file is left out."""
    import tensorflow as tf

    names = sorted(arrays)
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.constant(arrays[name]) for name in names],
    )


# what optimizers call their variables, at the end of the name of the weight they belong to
_SLOTS = re.compile(r"/(adam_[mv]|lamb_[mv]|Adam(_\d)?|LAMB(_\d)?|Momentum|Adagrad|RMSProp(_\d)?)$")


def is_slot(key):
    """Tells whether a variable belongs to an optimizer."""
    return bool(_SLOTS.search(key)) or ".OPTIMIZER_SLOT/" in key or re.match(r"(\w+/)*?optimizer/", key) is not None


def _array(reader, prefix, key):
    try:
        return reader.get_tensor(key)
    except Exception as error:  # TensorFlow raises anything here
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"{key} cannot be read from {prefix}: {reason}.") from None


def _object_names(reader):
    """Key in the file -> the variable's own name, for what an object graph lists."""
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(reader.get_tensor(GRAPH))
    names = {}
    for node in graph.nodes:
        for attribute in node.attributes:
            if attribute.checkpoint_key.endswith(SUFFIX) and reader.has_tensor(attribute.checkpoint_key):
                names[attribute.checkpoint_key] = attribute.full_name or attribute.checkpoint_key
    return names


def _check_shards(prefix):
    """Every `.data-0000i-of-0000n` must be there."""
    prefix = Path(prefix)
    found = sorted(prefix.parent.glob(f"{prefix.name}.data-*-of-*"))
    if not found:
        raise ValueError(f"{prefix.parent} lacks the data of the checkpoint {prefix.name}: {prefix.name}.data-*.")
    total = int(found[0].name.rsplit("-", 1)[1])
    wanted = [f"{prefix.name}.data-{i:05d}-of-{total:05d}" for i in range(total)]
    missing = [name for name in wanted if not (prefix.parent / name).is_file()]
    if missing:
        raise ValueError(f"{prefix.parent} lacks {len(missing)} of {total} shards: {', '.join(missing)}.")
