"""TFLite, made by TensorFlow and run by LiteRT: code points or ids in, with builtin operations only."""

import collections
import dataclasses
import re
from pathlib import Path

import numpy as np
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from keras_bert.export import comparison, metadata, signatures
from keras_bert.prediction import checked_length

FILE = "model.tflite"
ALLOWED = 1e-4
INTEGERS = "int32"
INPUTS = ("text", "pair", "ids", "free_ids", "mediapipe")
MAX_LENGTH = 128
AGREEMENT = {"float16": 0.995, "dynamic": 0.985}


def write(bundle, folder, inputs=None, max_length=None, max_code_points=None, quantize=None):
    """Writes model.tflite; beside it the vocabulary and labels and, with ids in, the tokenizer's files.

    Its one signature, `serving_default`, is bound by name: TFLite sorts inputs by the alphabet. Ids that the model does
    not have are moved to the nearest one that it has.

    Args:
        inputs: "text": `code_points` (1, C) int32, padded with 0, to the head's answers, labels as ids; "pair": with
            `code_points_pair` (1, C); "ids": the model's inputs (1, T) int32 to the model's output, T fixed;
            "free_ids": (B, T) of any size; "mediapipe": ids (1, T) with the metadata, vocabulary and labels by which
            MediaPipe's TextClassifier and TextEmbedder take texts, to probabilities or an embedding. By default "text",
            or "ids" where a text is not enough.
        max_length: T, tokens of every text, whatever its length; by default 128. For "free_ids" not used.
        max_code_points: C; longer texts must be cut. By default 4 T.
        quantize: "float16": weights of half the size, made float32 when the file is loaded; "dynamic": int8 weights, a
            quarter, multiplied with activations that are made int8 text by text.
    """
    sizes = _sizes(bundle, inputs, max_length, max_code_points)
    comparison.check_quantize(quantize, AGREEMENT)
    function, specs = _function(bundle, **sizes)
    content = convert(function, specs, bundle.model.weights, quantize)
    if sizes["inputs"] == "mediapipe":
        content = metadata.attach(content, bundle)
        metadata.check(content)
    (Path(folder) / FILE).write_bytes(content)
    signatures.write_names(bundle, Path(folder))
    if bundle.tokenizer is not None and sizes["inputs"] not in ("text", "pair"):
        bundle.tokenizer.save(folder)


def convert(function, specs, weights, quantize=None):
    """Converts a function of tensors to a TFLite file.

    Args:
        function: keyword arguments -> dict of tensors.
        specs: dict of `tf.TensorSpec`.
        weights: Keras variables that `function` reads.
        quantize: as for `write`.

    Returns:
        bytes.

    Raises:
        ValueError: an operation is not builtin.
    """
    # As plain variables: the converter loses the weights of a module that holds only the model, without an error.
    module = tf.Module()
    module.weights = [weight.value for weight in weights]
    traced = tf.function(function, autograph=False).get_concrete_function(**specs)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([traced], module)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if quantize is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if quantize == "float16":
        converter.target_spec.supported_types = [tf.float16]
    try:
        content = converter.convert()
    except Exception as error:
        names = re.findall(r"(?:TF Select|Custom) ops: ([\w, ]+)", str(error))
        if not names:
            raise
        foreign = sorted({name for found in names for name in found.split(", ")})
    else:
        foreign = [name for name in operations(content) if name.startswith(("CUSTOM", "VAR_HANDLE"))]
    if foreign:
        raise ValueError(f"TFLite must have only builtin operations, got {', '.join(foreign)}.") from None
    return content


def load(folder):
    """Loads the file by LiteRT; gives (signature, inputs) -> arrays by name."""
    interpreter = Interpreter(str(Path(folder) / FILE), num_threads=2)
    return lambda signature, inputs: interpreter.get_signature_runner(signature)(**inputs)


def probes(keras, inputs=None, max_length=None, max_code_points=None, quantize=None):
    """What the artifact is asked after it was written; the first probe is timed."""
    bundle = keras.bundle
    sizes = _sizes(bundle, inputs, max_length, max_code_points)
    inputs, length = sizes["inputs"], sizes["length"]
    if inputs in ("text", "pair"):
        texts = [_as_text(text)[: sizes["chars"]] for text in (*comparison.TEXTS, comparison.LONG)]
        pairs = texts[::-1] if inputs == "pair" else [None] * len(texts)
        return [_text_probe(keras, text, pair, sizes) for text, pair in zip(texts, pairs, strict=True)]
    if inputs in ("ids", "mediapipe"):
        batches = [comparison.random_features(bundle, 1, length, _masked(length))]
        batches += [_padded(comparison.random_features(bundle, 1, size, _masked(length)), length) for size in (3, 9)]
    else:
        longest = min(17, bundle.config.max_length)
        batches = [comparison.random_features(bundle, *size) for size in ((1, 4), (3, 7), (2, 2), (1, longest))]
    return [_probe_of(keras, features, inputs) for features in batches]


def text_probes(keras, texts, pairs=None, inputs=None, max_length=None, max_code_points=None, quantize=None):
    """Gives a probe for each text, or text and pair."""
    sizes = _sizes(keras.bundle, inputs, max_length, max_code_points)
    text_in = sizes["inputs"] in ("text", "pair")
    if text_in and (sizes["inputs"] == "pair") != (pairs is not None):
        given = "texts" if pairs is None else "pairs of texts"
        raise ValueError(f"The file takes `inputs` {sizes['inputs']!r}, but what it is to be asked are {given}.")
    couples = zip(texts, pairs or [None] * len(texts), strict=True)
    if text_in:
        return (_text_probe(keras, *(_cut(value, sizes["chars"]) for value in couple), sizes) for couple in couples)
    return (_id_probe(keras, *couple, sizes) for couple in couples)


def describe(folder):
    """Counts the operations of all subgraphs."""
    return {"operations": operations((Path(folder) / FILE).read_bytes())}


def operations(content):
    """Gives how often each operation stands in a TFLite file; a custom one as "CUSTOM name"."""
    names = {code: name for name, code in vars(schema.BuiltinOperator).items() if isinstance(code, int)}
    model = schema.Model.GetRootAs(content, 0)
    known = []
    for i in range(model.OperatorCodesLength()):
        code = model.OperatorCodes(i)
        custom = code.CustomCode()
        name = names[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())]
        known.append(name if custom is None else f"CUSTOM {custom.decode()}")
    graphs = [model.Subgraphs(i) for i in range(model.SubgraphsLength())]
    counts = collections.Counter(
        known[graph.Operators(i).OpcodeIndex()] for graph in graphs for i in range(graph.OperatorsLength())
    )
    return dict(counts.most_common())


def code_points(text, chars):
    """Gives int32 (1, C): the text's code points, cut at C and padded with 0."""
    points = np.zeros((1, chars), "int32")
    found = np.frombuffer(text[:chars].encode("utf-32-le", "surrogatepass"), "int32")
    points[0, : len(found)] = found
    return points


def _sizes(bundle, inputs, max_length, max_code_points):
    """Checks the options and fills them in."""
    if inputs is None:
        inputs = "text" if signatures.takes_text(bundle) else "ids"
    if inputs not in INPUTS:
        raise ValueError(f"`inputs` must be one of {', '.join(INPUTS)}, got {inputs!r}.")
    possible = {"text": signatures.takes_text(bundle), "pair": signatures.takes_pairs(bundle)}
    if not possible.get(inputs, True):
        raise ValueError(f"`inputs` of {inputs!r} needs a tokenizer and a head that answers it, got {bundle.head}.")
    if inputs == "mediapipe":
        metadata.check_bundle(bundle)
    if max_length is None:
        max_length = min(MAX_LENGTH, bundle.config.max_length)
    length = checked_length(max_length, bundle)
    if max_code_points is None:
        max_code_points = 4 * length
    if type(max_code_points) is not int or max_code_points < 1:
        raise ValueError(f"`max_code_points` must be a positive integer, got {max_code_points!r}.")
    return {"inputs": inputs, "length": length, "chars": max_code_points}


def _function(bundle, inputs, length, chars):
    """Gives the function to convert and its specs."""

    def text(code_points, code_points_pair=None):
        features = bundle.tokenizer.code_points_to_features(code_points, code_points_pair, length)
        return signatures.answers(bundle, features)

    def ids(**features):
        return signatures.model_outputs(bundle, signatures.clamped(bundle, features))

    def one_answer(**features):
        name = metadata.OUTPUTS[bundle.head]  # MediaPipe wants one output
        return {name: signatures.answers(bundle, signatures.clamped(bundle, features))[name]}

    if inputs in ("text", "pair"):
        names = ("code_points", "code_points_pair")[: 1 + (inputs == "pair")]
        return text, {name: tf.TensorSpec([1, chars], tf.int32, name=name) for name in names}
    specs = {}
    for name, free in signatures.id_specs(bundle, tf.int32).items():
        static = [1, *free.shape[1:-1], _masked(length) if name == signatures.MASKED else length]
        specs[name] = free if inputs == "free_ids" else tf.TensorSpec(static, tf.int32, name=name)
    return one_answer if inputs == "mediapipe" else ids, specs


def _masked(length):
    """Room for masked positions in T tokens: BERT's 15%."""
    return max(1, round(0.15 * length))


def _padded(features, length):
    """Pads ids (1, t) to (1, T) with 0; masked positions have their size already."""
    return {
        name: ids
        if name == signatures.MASKED
        else np.pad(ids, [*[[0, 0]] * (ids.ndim - 1), [0, length - ids.shape[-1]]])
        for name, ids in features.items()
    }


def _as_text(text):
    return text if isinstance(text, str) else text.decode("utf-8", "replace")


def _text_probe(keras, text, pair, sizes):
    given = {"code_points": code_points(text, sizes["chars"])}
    if pair is not None:
        given["code_points_pair"] = code_points(pair, sizes["chars"])
    pairs = None if pair is None else [pair]
    return comparison.Probe("serving_default", given, lambda: keras.answers([text], pairs, sizes["length"]))


def _id_probe(keras, text, pair, sizes):
    fixed = sizes["inputs"] != "free_ids"
    length = sizes["length"] if fixed else checked_length(None, keras.bundle)
    features = keras.bundle.tokenizer([text], pair if pair is None else [pair], max_length=length)
    return _probe_of(keras, _padded(features, length) if fixed else features, sizes["inputs"])


def _probe_of(keras, features, inputs):
    probe = comparison.id_probe(keras, "serving_default", features)
    if inputs != "mediapipe":
        return probe
    name = metadata.OUTPUTS[keras.bundle.head]
    return dataclasses.replace(probe, keras=lambda: {name: keras.answers_to(features)[name]})


def _cut(text, chars):
    return None if text is None else text[:chars]
