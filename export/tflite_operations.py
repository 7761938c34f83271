"""Which operations stand in a TFLite file, read from its flatbuffer."""

import collections
import dataclasses

from ai_edge_litert import schema_py_generated as schema

NAMES = {code: name for name, code in vars(schema.BuiltinOperator).items() if isinstance(code, int)}
MOVES = ("QUANTIZE", "DEQUANTIZE", "RESHAPE", "TRANSPOSE")  # no arithmetic


@dataclasses.dataclass(frozen=True)
class Operation:
    """One operation of a graph.

    Args:
        name: the builtin one's, as in the schema, or "CUSTOM name".
        output: name of the tensor that it makes.
        floats: whether that is float32.
    """

    name: str
    output: str
    floats: bool


def operations(content):
    """Gives the `Operation`s of all subgraphs, in order."""
    model = schema.Model.GetRootAs(content, 0)
    names = [_name(model.OperatorCodes(i)) for i in range(model.OperatorCodesLength())]
    found = []
    for graph in (model.Subgraphs(i) for i in range(model.SubgraphsLength())):
        for operator in (graph.Operators(i) for i in range(graph.OperatorsLength())):
            tensor = graph.Tensors(operator.Outputs(0)) if operator.OutputsLength() else None
            output = b"" if tensor is None else tensor.Name()
            floats = tensor is not None and tensor.Type() == schema.TensorType.FLOAT32
            found.append(Operation(names[operator.OpcodeIndex()], output.decode(), floats))
    return found


def counts(content):
    """Gives how often each operation stands in a file, the most frequent first."""
    return _counted(operations(content))


def left_out(content):
    """Says what an int8 file computes in float32.

    Returns:
        dict: "operations", how often each does; "dense", names of the dense layers: ["layer_0/output", ...].
    """
    found = [operation for operation in operations(content) if operation.floats and operation.name not in MOVES]
    dense = [_layer(operation.output) for operation in found if operation.name == "FULLY_CONNECTED"]
    return {"operations": _counted(found), "dense": dense}


def _counted(found):
    return dict(collections.Counter(operation.name for operation in found).most_common())


def _layer(output):
    """The layer that made a tensor, of "model_1/layer_0_1/output_1/MatMul;...": "layer_0/output"."""
    names = output.split(";")[0].split("/")
    if names[0].endswith("_1"):  # Keras numbers all names of a model that is called again
        names = [name.removesuffix("_1") for name in names]
    return "/".join(names[1:-1])


def _name(code):
    if code.CustomCode() is not None:
        return f"CUSTOM {code.CustomCode().decode()}"
    return NAMES[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())]
