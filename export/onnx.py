"""ONNX, made by tf2onnx from a TensorFlow graph and run by ONNX Runtime: ids in, named axes."""

import collections
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import tensorflow as tf
import tf2onnx
from onnx import helper, numpy_helper
from tf2onnx import optimizer, tfonnx

from keras_bert.export import comparison, onnx_quantization, signatures
from keras_bert.prediction import checked_length

FILE = "model.onnx"
ALLOWED = 1e-4
INTEGERS = "int64"
OPSET = 17
AGREEMENT = {"float16": 0.995, "dynamic": 0.98}


def write(bundle, folder, quantize=None):
    """Writes model.onnx, and the tokenizer's files and labels beside it.

    Inputs: the model's, int64, with the axes `batch` and `sequence` (`masked_positions`: `batch` and `masked`), all to
    be given. Outputs: `logits`, `embedding`, or the model's own names. The graph is made to be fused by ONNX Runtime.

    Args:
        quantize: "float16": weights of half the size, made float32 when the file is loaded; "dynamic": int8 weights
            with a scale per channel, multiplied with activations that are made int8 batch by batch.
    """
    comparison.check_quantize(quantize, AGREEMENT)
    made = convert(bundle)
    if quantize is not None:
        made = {"float16": onnx_quantization.halve, "dynamic": onnx_quantization.quantize}[quantize](made)
        _check(made)
    onnx.save(made, Path(folder) / FILE)
    signatures.write_names(bundle, Path(folder))
    if bundle.tokenizer is not None:
        bundle.tokenizer.save(folder)


def convert(bundle):
    """Gives the model as an `onnx.ModelProto`.

    The weights are arguments while the graph is made and become initializers at the end: tf2onnx copies the whole graph
    in each of its passes, which took ten times as long with the weights inside.
    """
    model = bundle.model
    variables = [*model.trainable_variables, *model.non_trainable_variables]
    names = signatures.inputs(bundle)

    def function(*arguments):
        features = {name: tf.cast(ids, tf.int32) for name, ids in zip(names, arguments, strict=False)}
        values = list(arguments[len(names) :])
        trainable = len(model.trainable_variables)
        outputs, _ = model.stateless_call(values[:trainable], values[trainable:], features, training=False)
        return signatures.named(bundle, outputs)

    specs = list(signatures.id_specs(bundle, tf.int64).values())
    specs += [tf.TensorSpec(v.shape, v.dtype, name=f"weight_{i}") for i, v in enumerate(variables)]
    traced = tf.function(function, autograph=False).get_concrete_function(*specs)
    graph = _converted(traced, [*names, *(variable.path for variable in variables)])
    _name_axes(graph, bundle)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="keras3-bert")
    made.ir_version = 8  # the one of opset 17: older runtimes refuse a later one
    _check(made)
    used = {name for node in graph.node for name in node.input}
    made.graph.initializer.extend(numpy_helper.from_array(v.value.numpy(), v.path) for v in variables if v.path in used)
    return made


def load(folder):
    """Loads the file by ONNX Runtime; gives (signature, inputs) -> arrays by name."""
    session = onnxruntime.InferenceSession(Path(folder) / FILE, _options(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda _, inputs: dict(zip(names, session.run(names, inputs), strict=True))


def probes(keras, quantize=None):
    """What the artifact is asked after it was written; the first probe is timed."""
    bundle, longest = keras.bundle, keras.bundle.config.max_length
    sizes = [(batch, min(length, longest)) for batch, length in ((1, 12), (1, 3), (4, 17), (2, 128))]
    batches = [comparison.random_features(bundle, *size) for size in sizes]
    if signatures.takes_text(bundle):
        texts = [[comparison.SHORT], list(comparison.TEXTS), [comparison.LONG]]
        batches = [bundle.tokenizer(batch, max_length=longest) for batch in texts] + batches
    return [comparison.id_probe(keras, "", features, INTEGERS) for features in batches]


def text_probes(keras, texts, pairs=None, quantize=None):
    """Gives a probe for each text, or text and pair."""
    length = checked_length(None, keras.bundle)
    for text, pair in zip(texts, pairs or [None] * len(texts), strict=True):
        features = keras.bundle.tokenizer([text], pair if pair is None else [pair], max_length=length)
        yield comparison.id_probe(keras, "", features, INTEGERS)


def describe(folder):
    """Counts the operations, and those that ONNX Runtime makes by fusing several."""
    ours = _counts(onnx.load(Path(folder) / FILE, load_external_data=False))
    with tempfile.TemporaryDirectory() as made:
        options = _options()
        options.optimized_model_filepath = str(Path(made) / FILE)
        onnxruntime.InferenceSession(Path(folder) / FILE, options, providers=["CPUExecutionProvider"])
        optimized = _counts(onnx.load(Path(made) / FILE))
    fused = {name: count for name, count in optimized.items() if name not in ours}
    return {"operations": dict(ours.most_common()), "fused": fused}


def _converted(traced, names):
    """Runs tf2onnx on a traced function; `names` are those of its inputs, in order."""
    renamed = {tensor.name: name for tensor, name in zip(traced.inputs, names, strict=True)}
    renamed |= {tensor.name: name for name, tensor in traced.structured_outputs.items()}
    # GlobalAveragePool instead of ReduceMean: ONNX Runtime would not see the layer norms
    passes = {name: made for name, made in optimizer._get_optimizers().items() if name != "global_pool_optimizer"}
    with tf.Graph().as_default() as graph:
        # not TensorFlow's own optimizer first: it makes of x / sqrt(2) a product, and then gelu is not fused
        tf.import_graph_def(traced.graph.as_graph_def(), name="")
        converted = tfonnx.process_tf_graph(
            graph,
            opset=OPSET,
            input_names=[tensor.name for tensor in traced.inputs],
            output_names=[tensor.name for tensor in traced.outputs],
            tensors_to_rename=renamed,
            custom_op_handlers={"Square": (_square_as_power, [])},
        )
        return optimizer.optimize_graph(converted, catch_errors=False, optimizers=passes).make_graph("keras3-bert")


def _square_as_power(context, node, name, args):
    """Makes Square a Pow: ONNX Runtime fuses layer norms that are written with pow(x, 2), not with x * x."""
    two = context.make_const(tf2onnx.utils.make_name("two"), np.array(2, np.float32))
    node.type = "Pow"
    context.replace_inputs(node, [node.input[0], two.output[0]])


def _name_axes(graph, bundle):
    """Leaves the ids as the only inputs, and gives inputs and outputs named axes."""
    names = {name: signatures.axes(bundle, name) for name in signatures.inputs(bundle)}
    inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.INT64, axes) for name, axes in names.items()]
    free = names.get(signatures.MASKED) or names["token_ids"]
    outputs = []
    for name, tensor in signatures.named(bundle, bundle.model.output).items():
        shape = [size or free[i] for i, size in enumerate(tensor.shape)]
        outputs.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape))
    for field, values in ((graph.input, inputs), (graph.output, outputs)):
        del field[:]
        field.extend(values)
    del graph.value_info[:]  # tf2onnx's own names of axes


def _check(model):
    """Refuses operations that are not ONNX's own: tf2onnx writes those that it does not know as they are."""
    foreign = sorted({node.op_type for node in model.graph.node if node.domain or not onnx.defs.has(node.op_type)})
    if foreign:
        raise ValueError(f"ONNX must have only standard operations, got {', '.join(foreign)}.")


def _counts(model):
    return collections.Counter(node.op_type for node in model.graph.node)


def _options():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    return options
