"""A recipe's settings from a file and from `field=value` assignments, checked by the fields of its dataclass."""

import dataclasses
import json
import types
import typing

from keras_bert.config import did_you_mean
from keras_bert.files import read_json

KINDS = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}


def read_settings(recipe, path=None, assignments=(), **values):
    """Makes a recipe's dataclass; what stands later in the list of arguments wins.

    Args:
        recipe: a frozen dataclass whose fields are str, int, float, bool, or a union of those with a tuple of str.
        path: a JSON file with an object of fields, or None.
        assignments: strings "field=value", as `--set` takes them.
        values: fields by name; None stands for "not given".

    Raises:
        ValueError: a field is unknown, missing or of another type, or the file is no JSON object.
    """
    kinds = typing.get_type_hints(recipe)
    found = {}
    if path is not None:
        for name, value in read_json(path).items():
            found[name] = _checked(name, value, kinds, path)
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise ValueError(f"--set must be given as field=value, got `{assignment}`.")
        found[name] = _checked(name, _parsed(text, kinds.get(name)), kinds, "--set")
    found |= {name: value for name, value in values.items() if value is not None}
    missing = [
        field.name
        for field in dataclasses.fields(recipe)
        if field.name not in found and field.default is dataclasses.MISSING
    ]
    if missing:
        raise ValueError(f"`{missing[0]}` is missing{f' in {path}' if path else ''}. Set it by --set {missing[0]}=...")
    return recipe(**found)


def _parsed(text, kind):
    """Takes a string as it is where the field may be one; anything else is written as in JSON."""
    if str in _alternatives(kind) and not text.startswith("["):
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _checked(name, value, fields, source):
    if name not in fields:
        raise ValueError(f"Unknown key `{name}` in {source}.{did_you_mean(name, fields)}")
    for alternative in _alternatives(fields[name]):
        if alternative is float and type(value) is int:
            return float(value)
        if type(value) is alternative:
            return value
        is_tuple = typing.get_origin(alternative) is tuple and isinstance(value, list | tuple)
        if is_tuple and all(isinstance(item, str) for item in value):
            return tuple(value)
    kinds = " or ".join(KINDS.get(alternative, "a list of strings") for alternative in _alternatives(fields[name]))
    raise ValueError(f"`{name}` must be {kinds}, got {value!r} in {source}.")


def _alternatives(kind):
    return typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
