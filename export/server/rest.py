"""TensorFlow Serving's REST contract, without a server: from JSON to arrays by name, and back.

Source: the documentation of TensorFlow Serving, "RESTful API". Differs: all inputs must have the same first axis, which
those of our signatures have.
"""

import base64
import binascii
import itertools
import json

import numpy as np

from keras_bert.export.server.refusal import Refusal

DEFAULT = "serving_default"
KINDS = {"string": "strings", "int32": "integers of 32 bits", "int64": "integers of 64 bits", "float32": "numbers"}


def read_json(body):
    """Gives the JSON object that a request's bytes hold."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:  # also bytes that are no UTF-8
        raise Refusal(400, f"The body must be JSON in UTF-8: {error}.") from None
    if not isinstance(request, dict):
        raise Refusal(400, 'The body must be a JSON object, such as {"instances": ["a text"]}.')
    return request


def read_request(body, signatures):
    """Reads a request for predictions.

    Args:
        body: bytes of JSON: "signature_name" (or none), and "instances" (rows) or "inputs" (columns).
        signatures: dict from names to `versions.Signature`.

    Returns:
        The signature's name, a dict of its inputs as arrays, and whether rows were given.

    Raises:
        Refusal: 400, the request is not what the signature takes.
    """
    request = read_json(body)
    name = request.get("signature_name", DEFAULT)
    if not isinstance(name, str) or name not in signatures:
        raise Refusal(400, f"There is no signature {name!r}; this model has {', '.join(sorted(signatures))}.")
    if ("instances" in request) == ("inputs" in request):
        raise Refusal(400, "The body must have either `instances` (rows) or `inputs` (columns).")
    specs = _asked(signatures[name], request)
    in_rows = "instances" in request
    columns = _columns_of_rows(request["instances"], specs) if in_rows else _columns(request["inputs"], specs)
    arrays = {key: _array(key, value, specs[key]) for key, value in columns.items()}
    sizes = {key: len(array) for key, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        raise Refusal(400, f"All inputs must have equally many rows, got {sizes}.")
    if 0 in sizes.values():
        raise Refusal(400, "A request must have at least one row, got none.")
    return name, arrays, in_rows


def response(outputs, in_rows):
    """Gives the JSON value of arrays by name: predictions row by row, or outputs by name; one output has no name."""
    values = {name: _plain(array) for name, array in outputs.items()}
    single = next(iter(values.values())) if len(values) == 1 else None
    if not in_rows:
        return {"outputs": values if single is None else single}
    if single is not None:
        return {"predictions": single}
    return {"predictions": [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]}


def _asked(signature, request):
    """Gives the inputs that a request must have: those with a default only if its columns, or its first row, do."""
    given = request.get("inputs", request.get("instances"))
    given = given[0] if isinstance(given, list) and given else given
    names = given if isinstance(given, dict) else signature.inputs
    return {name: spec for name, spec in signature.inputs.items() if name in names or name not in signature.optional}


def _columns_of_rows(rows, specs):
    """Puts rows, each {input: value} or the value of the only input, into lists by input."""
    if not isinstance(rows, list):
        raise Refusal(400, f"`instances` must be a list of rows, got {_kind(rows)}.")
    named = [
        row if isinstance(row, dict) and not _is_binary(row) else _by_name(row, specs, i) for i, row in enumerate(rows)
    ]
    for i, row in enumerate(named):
        _check_names(f"`instances[{i}]`", row, specs)
    return {name: [row[name] for row in named] for name in specs}


def _by_name(value, specs, row):
    if len(specs) > 1:
        raise Refusal(400, f"`instances[{row}]` must be an object with {', '.join(specs)}, got {_kind(value)}.")
    return dict.fromkeys(specs, value)


def _columns(inputs, specs):
    if not isinstance(inputs, dict) or _is_binary(inputs):
        if len(specs) > 1:
            raise Refusal(400, f"`inputs` must be an object with {', '.join(specs)}, got {_kind(inputs)}.")
        inputs = dict.fromkeys(specs, inputs)
    _check_names("`inputs`", inputs, specs)
    return {name: inputs[name] for name in specs}


def _check_names(where, given, specs):
    if given.keys() != specs.keys():
        raise Refusal(400, f"{where} must have {', '.join(specs)}, got {', '.join(given) or 'nothing'}.")


def _array(name, value, spec):
    """Gives the array of nested lists; refuses other types, other axes and lists of unequal lengths."""
    shape = _shape(value)
    if len(shape) != len(spec.shape):
        raise Refusal(400, f"`{name}` must have {len(spec.shape)} axes, the rows included, got {len(shape)}.")
    leaves = [value]
    for size in shape:
        if any(not isinstance(part, list) or len(part) != size for part in leaves):
            raise Refusal(400, f"`{name}` must have lists of equal lengths.")
        leaves = list(itertools.chain.from_iterable(leaves))
    array = np.empty(len(leaves), object)
    array[:] = [_leaf(name, leaf, spec.dtype) for leaf in leaves]
    try:
        return array.astype(object if spec.dtype == "string" else spec.dtype).reshape(shape)
    except OverflowError:
        raise Refusal(400, f"`{name}` must be {KINDS[spec.dtype]}, got a larger one.") from None


def _shape(value):
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    return shape


def _leaf(name, value, dtype):
    if dtype == "string" and isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise Refusal(400, f"`{name}` must be Unicode, got half of a surrogate pair.") from None
    if dtype == "string" and _is_binary(value):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise Refusal(400, f"`b64` in `{name}` must be a string in base 64.") from None
    numbers = int if dtype.startswith("int") else (int, float)
    if dtype != "string" and isinstance(value, numbers) and not isinstance(value, bool):
        return value
    raise Refusal(400, f"`{name}` must be {KINDS[dtype]}, got {_kind(value)}.")


def _is_binary(value):
    return isinstance(value, dict) and value.keys() == {"b64"}


def _kind(value):
    """Names a JSON value's type as JSON does."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _plain(array):
    """Gives lists of what JSON has; floats with the digits that float32 has."""
    if array.dtype == object:
        leaves = [leaf.decode(errors="replace") for leaf in array.ravel()]
    elif array.dtype == np.float32:
        leaves = [float(str(leaf)) for leaf in array.ravel()]
    else:
        return array.tolist()
    return _nested(leaves, array.shape)


def _nested(leaves, shape):
    for size in shape[:0:-1]:
        leaves = [leaves[i : i + size] for i in range(0, len(leaves), size)] if size else [[] for _ in range(shape[0])]
    return leaves
