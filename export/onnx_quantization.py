"""Smaller ONNX files: float16 or int8 weights that are float32 again once loaded, and int8 arithmetic."""

import logging
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

SMALLEST = 1024  # elements from which on a weight is worth a node of its own


def halve(model):
    """Stores the weights as float16, each behind a cast to float32, which runtimes compute once, when they load it.

    Arithmetic stays float32: the scores of padding are beyond float16, and CPUs would be slower with it.
    """
    casts = []
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.size < SMALLEST or not np.abs(values).max() <= np.finfo("float16").max:
            continue
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(values.astype("float16"), f"{name}/float16"))
        casts.append(helper.make_node("Cast", [tensor.name], [name], f"{name}/cast", to=onnx.TensorProto.FLOAT))
    return _begun_with(casts, model)


def store_as_int8(model):
    """Stores matrices as int8 with a scale for each column, tables with one for each row, to be float32 once loaded.

    Arithmetic stays float32, so that what a text gives does not depend on the rest of its batch.
    """
    tables = {node.input[0] for node in model.graph.node if node.op_type == "Gather"}
    nodes = []
    for tensor in list(model.graph.initializer):
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.ndim != 2 or values.size < SMALLEST:
            continue
        name, axis = tensor.name, int(tensor.name in tables)
        scales = np.maximum(np.abs(values).max(axis=axis, keepdims=True), np.finfo("float32").tiny) / np.float32(127)
        tensor.CopyFrom(numpy_helper.from_array(np.round(values / scales).astype("int8"), f"{name}/int8"))
        model.graph.initializer.append(numpy_helper.from_array(scales, f"{name}/scales"))
        cast = helper.make_node("Cast", [tensor.name], [f"{name}/cast"], f"{name}/cast", to=onnx.TensorProto.FLOAT)
        nodes += [cast, helper.make_node("Mul", [f"{name}/cast", f"{name}/scales"], [name], f"{name}/scaled")]
    return _begun_with(nodes, model)


def quantize(model):
    """Stores embeddings as int8, and products with weights as int8 with a scale for each of their columns.

    One scale for the whole matrix costs a sentence embedding four times as much (cosine 0.957 against 0.992).
    """
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
        onnx.save(model, before)
        root = logging.getLogger()
        level = root.level
        root.setLevel(logging.ERROR)  # the quantizer's advice about its own command line
        try:
            quantize_dynamic(before, after, per_channel=True, weight_type=QuantType.QInt8)
        finally:
            root.setLevel(level)
        return onnx.load(after)


def _begun_with(nodes, model):
    """Puts nodes before those that use them."""
    nodes = [*nodes, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model
