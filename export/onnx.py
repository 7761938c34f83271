"""ONNX, made by tf2onnx from a TensorFlow graph and run by ONNX Runtime: ids or code points in, named axes."""

import collections
import tempfile
from pathlib import Path

import keras
import numpy as np
import onnx
import onnxruntime
import tensorflow as tf
import tf2onnx
from onnx import helper, numpy_helper
from tf2onnx import optimizer, tfonnx

from keras_bert.export import code_points, comparison, onnx_quantization, signatures
from keras_bert.export.questions import questions
from keras_bert.prediction import checked_length

FILE = "model.onnx"
ALLOWED = 1e-4
INTEGERS = "int64"
OPSET = 17
AGREEMENT = {
    "float16": {"agreement": 0.995},
    "dynamic": {"agreement": 0.98},
    "weight_only": {"agreement": 0.98, "cosine_min": 0.99},
}
QUANTIZERS = {
    "float16": onnx_quantization.halve,
    "dynamic": onnx_quantization.quantize,
    "weight_only": onnx_quantization.store_as_int8,
}
TEXT = ("text", "pair")
INPUTS = ("ids", *TEXT)
MAX_LENGTH = 128


def write(bundle, folder, quantize=None, inputs="ids", max_length=None, **settings):
    """Writes model.onnx, and the tokenizer's files and labels beside it. The graph is made to be fused by ONNX Runtime.

    Args:
        quantize: "float16": weights of half the size, made float32 when the file is loaded; "dynamic": int8 weights
            with a scale per channel, multiplied with activations that are made int8 batch by batch; "weight_only": int8
            weights, a quarter, made float32 when the file is loaded: no faster, but each text keeps its answer.
        inputs: "ids": the model's inputs, int64, with the axes `batch` and `sequence` (`masked_positions`: `batch` and
            `masked`), all to be given, to `logits`, `embedding`, or the model's own names; "text": `code_points`
            (`batch`, `characters`) int32, padded with 0, and where the head takes two texts `code_points_pair`
            (`batch`, `characters_pair`), for choices (`batch`, `choices`, `characters_pair`), to the head's answers as
            `code_points.answer` has them; "pair": with `code_points_pair` where the head takes one text or two.
        max_length: T, tokens of every text, for text in; by default 128.
        settings: as in `saved_model.write`, for text in.
    """
    comparison.check_quantize(quantize, AGREEMENT)
    made = convert(bundle, *_function(bundle, inputs, _settings(bundle, inputs, max_length, settings)))
    if quantize is not None:
        made = QUANTIZERS[quantize](made)
        _check(made)
    with open(Path(folder) / FILE, "wb") as file:
        file.writelines(_serialized(made))
    signatures.write_names(bundle, Path(folder))
    if bundle.tokenizer is not None:
        bundle.tokenizer.save(folder)


def convert(bundle, function, specs, free):
    """Gives a function of the model as an `onnx.ModelProto`.

    The weights are arguments while the graph is made and become initializers at the end: tf2onnx copies the whole graph
    in each of its passes, which took ten times as long with the weights inside.

    Args:
        function: keyword arguments -> dict of tensors.
        specs: dict of `tf.TensorSpec`; free: names of the axes of each.
    """
    variables = [*bundle.model.trainable_variables, *bundle.model.non_trainable_variables]

    def of_weights(*arguments):
        values = zip(variables, arguments[len(specs) :], strict=True)
        with keras.StatelessScope(list(values)):
            return function(**dict(zip(specs, arguments, strict=False)))

    weights = [tf.TensorSpec(v.shape, v.dtype, name=f"weight_{i}") for i, v in enumerate(variables)]
    traced = tf.function(of_weights, autograph=False).get_concrete_function(*specs.values(), *weights)
    graph = _converted(traced, [*specs, *(variable.path for variable in variables)])
    _name_axes(graph, specs, free, traced.structured_outputs)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="keras3-bert")
    made.ir_version = 8  # the one of opset 17: older runtimes refuse a later one
    _check(made)
    used = {name for node in graph.node for name in node.input}
    made.graph.initializer.extend(numpy_helper.from_array(v.value.numpy(), v.path) for v in variables if v.path in used)
    return made


def _serialized(made):
    """The bytes of a model, an initializer at a time, which take it apart: protobuf holds what it serializes twice."""
    tensors = list(made.graph.initializer)
    del made.graph.initializer[:]
    sizes = [tensor.ByteSize() for tensor in tensors]
    heads = [_head_of_field(onnx.GraphProto, "initializer", size) for size in sizes]
    graph = made.graph.SerializeToString()
    made.ClearField("graph")
    yield made.SerializeToString()
    yield _head_of_field(onnx.ModelProto, "graph", len(graph) + sum(sizes) + sum(map(len, heads)))
    yield graph
    for head, tensor in zip(heads, tensors, strict=True):
        yield head
        yield tensor.SerializeToString()


def _head_of_field(message, name, size):
    """What stands before a message of `size` bytes in another one: the field's number and the size, as varints."""
    length_delimited = 2
    head = bytearray()
    for number in (message.DESCRIPTOR.fields_by_name[name].number << 3 | length_delimited, size):
        while number >= 128:
            head.append(number & 127 | 128)
            number >>= 7
        head.append(number)
    return bytes(head)


def load(folder):
    """Loads the file by ONNX Runtime; gives (signature, inputs) -> arrays by name."""
    session = onnxruntime.InferenceSession(Path(folder) / FILE, _options(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda _, inputs: dict(zip(names, session.run(names, inputs), strict=True))


def probes(keras, quantize=None, inputs="ids", **options):
    """What the artifact is asked after it was written; the first probe is timed."""
    bundle, longest = keras.bundle, keras.bundle.config.max_length
    if inputs in TEXT:
        texts = [text if isinstance(text, str) else text.decode("utf-8", "replace") for text in comparison.TEXTS]
        asked = questions(bundle, [*texts, comparison.LONG], inputs == "pair")
        return list(text_probes(keras, *asked, inputs=inputs, **options))
    sizes = [(batch, min(length, longest)) for batch, length in ((1, 12), (1, 3), (4, 17), (2, 128))]
    batches = [comparison.random_features(bundle, *size) for size in sizes]
    if signatures.takes(bundle) in ("texts", "documents"):
        texts = [[comparison.SHORT], list(comparison.TEXTS), [comparison.LONG]]
        batches = [bundle.tokenizer(batch, max_length=longest) for batch in texts] + batches
    return [comparison.id_probe(keras, "", features, INTEGERS) for features in batches]


def text_probes(keras, texts, pairs=None, quantize=None, inputs="ids", max_length=None, **settings):
    """Gives a probe for each text, or text and pair."""
    settings = _settings(keras.bundle, inputs, max_length, settings)
    for text, pair in zip(texts, pairs or [None] * len(texts), strict=True):
        if inputs in TEXT:
            yield _text_probe(keras, text, pair, inputs, settings)
            continue
        features = keras.bundle.tokenizer([text], pair if pair is None else [pair], max_length=settings["max_length"])
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


def _settings(bundle, inputs, max_length, settings):
    """Checks what is asked for, and gives the settings of text in."""
    if inputs not in INPUTS:
        raise ValueError(f"`inputs` must be one of {', '.join(INPUTS)}, got {inputs!r}.")
    if inputs == "ids":
        given = next(iter(settings), None if max_length is None else "max_length")
        if given is not None:
            raise ValueError(f"`{given}` is for answers to texts, got `inputs` 'ids'.")
        return {"max_length": checked_length(None, bundle)}
    if not (signatures.takes(bundle) if inputs == "text" else signatures.may_take_pairs(bundle)):
        raise ValueError(f"`inputs` of {inputs!r} needs a tokenizer and a head that answers it, got {bundle.head}.")
    return code_points.text_settings(bundle, max_length or min(MAX_LENGTH, bundle.config.max_length), settings)


def _function(bundle, inputs, settings):
    """Gives the function to convert, its specs, and the names of their axes."""

    def text(**given):
        return code_points.answer(bundle, settings, **given)

    def ids(**features):
        return signatures.model_outputs(bundle, {name: tf.cast(ids, tf.int32) for name, ids in features.items()})

    if inputs == "ids":
        return ids, signatures.id_specs(bundle, tf.int64), {n: signatures.axes(bundle, n) for n in bundle.model.input}
    names = code_points.input_names(bundle, inputs == "pair")
    axes = {"code_points": ("batch", "characters"), "code_points_pair": ("batch", "characters_pair")}
    if signatures.takes(bundle) == "choices":
        axes["code_points_pair"] = ("batch", "choices", "characters_pair")
    axes = {name: axes[name] for name in names}
    return text, {name: tf.TensorSpec([None] * len(axes[name]), tf.int32, name=name) for name in names}, axes


def _text_probe(keras, text, pair, inputs, settings):
    couple = [text] if pair is None else [text, pair]
    longest = max(len(one) for value in couple for one in ([value] if isinstance(value, str) else value))
    names = code_points.input_names(keras.bundle, inputs == "pair")
    given = {name: code_points.encoded(one, max(1, longest)) for name, one in zip(names, couple, strict=True)}
    pairs = None if pair is None else [pair]
    return comparison.Probe("", given, lambda: code_points.expected(keras.bundle, keras, [text], pairs, settings))


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


def _name_axes(graph, specs, free, outputs):
    """Leaves the function's arguments as the only inputs, and gives inputs and outputs named axes."""
    inputs = [_tensor_info(name, spec.dtype, free[name]) for name, spec in specs.items()]
    names = next((axes for name, axes in free.items() if name == signatures.MASKED or len(axes) == 3), None)
    names = names or next(iter(free.values()))
    made = []
    for name, tensor in outputs.items():
        sizes = [size or names[i] for i, size in enumerate(tensor.shape)]
        made.append(_tensor_info(name, tensor.dtype, sizes))
    for field, values in ((graph.input, inputs), (graph.output, made)):
        del field[:]
        field.extend(values)
    del graph.value_info[:]  # tf2onnx's own names of axes


def _tensor_info(name, dtype, sizes):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype.as_numpy_dtype)), sizes)


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
