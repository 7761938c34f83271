"""TFLite, made by TensorFlow and run by LiteRT: code points or ids in, with builtin operations only."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from keras_bert.export import code_points, comparison, metadata, signatures, tflite_int8, tflite_operations
from keras_bert.export.questions import CHOICES, questions
from keras_bert.heads import HEADS
from keras_bert.prediction import checked_length

FILE = "model.tflite"
ALLOWED = 1e-4
INTEGERS = "int32"
TEXT = ("text", "pair")
INPUTS = (*TEXT, "ids", "free_ids", "mediapipe")
MAX_LENGTH = 128
AGREEMENT = {"float16": {"agreement": 0.995}, "dynamic": {"agreement": 0.985}, "int8": {"agreement": 0.98}}


def write(
    bundle,
    folder,
    inputs=None,
    max_length=None,
    max_code_points=None,
    quantize=None,
    choices=None,
    samples=None,
    **settings,
):
    """Writes model.tflite; beside it the vocabulary and labels and, with ids in, the tokenizer's files.

    Its one signature, `serving_default`, is bound by name: TFLite sorts inputs by the alphabet. Ids that the model does
    not have are moved to the nearest one that it has.

    Args:
        inputs: "text": `code_points` (1, C) int32, padded with 0, and where the head takes two texts `code_points_pair`
            (1, C), for choices (1, N, C), to the head's answers as `code_points.answer` has them; for a question they
            are its code points, and the context's, of which the first window is read; "pair": with `code_points_pair`
            where the head takes one text or two; "ids": the model's inputs (1, T) int32 to the model's output, T fixed;
            "free_ids": (B, T) of any size; "mediapipe": ids (1, T) with the metadata, vocabulary and labels by which
            MediaPipe's TextClassifier and TextEmbedder take texts, to probabilities or an embedding. By default "text",
            or "ids" where a text is not enough.
        max_length: T, tokens of every text, whatever its length; by default 128. For "free_ids" not used.
        max_code_points: C; longer texts must be cut. By default 4 T.
        quantize: "float16": weights of half the size, made float32 when the file is loaded; "dynamic": int8 weights, a
            quarter, multiplied with activations that are made int8 text by text; "int8": scales of the activations too
            are fixed, by `samples`, and most of the arithmetic is int8 (`tflite_int8` has what is not).
        choices: N, of a multiple_choice with text in; by default 3.
        samples: for "int8", dicts of the file's inputs by name, whose ranges are measured.
        settings: as in `saved_model.write`.
    """
    sizes = _sizes(bundle, inputs, max_length, max_code_points, choices, settings)
    comparison.check_quantize(quantize, AGREEMENT)
    function, specs = _function(bundle, sizes)
    content = convert(function, specs, bundle.model.weights, quantize, samples)
    if sizes["inputs"] == "mediapipe":
        content = metadata.attach(content, bundle)
        metadata.check(content)
    (Path(folder) / FILE).write_bytes(content)
    signatures.write_names(bundle, Path(folder))
    if bundle.tokenizer is not None and sizes["inputs"] not in TEXT:
        bundle.tokenizer.save(folder)


def convert(function, specs, weights, quantize=None, samples=None):
    """Converts a function of tensors to a TFLite file.

    Args:
        function: keyword arguments -> dict of tensors.
        specs: dict of `tf.TensorSpec`.
        weights: Keras variables that `function` reads.
        quantize, samples: as for `write`.

    Returns:
        bytes.

    Raises:
        ValueError: an operation is not builtin; named with its layer.
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
    if quantize == "int8":
        tflite_int8.calibrate(converter, samples)
    try:
        content = converter.convert()
    except Exception as error:
        names = re.findall(r"(?:TF Select|Custom) ops: ([\w, ]+)", str(error))
        if not names:
            raise
        foreign = [_placed(name, traced) for name in sorted({name for found in names for name in found.split(", ")})]
    else:
        foreign = [name for name in tflite_operations.counts(content) if name.startswith(("CUSTOM", "VAR_HANDLE"))]
    if foreign:
        raise ValueError(f"TFLite must have only builtin operations, got {', '.join(foreign)}.") from None
    return tflite_int8.quantize(content) if quantize == "int8" else content


def _placed(name, traced):
    """An operation's name with where it first stands in the graph: its layer."""
    definition = traced.graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    place = next((node.name for node in nodes if node.op == name), None)
    return name if place is None else f"{name} at {place}"


def load(folder):
    """Loads the file by LiteRT; gives (signature, inputs) -> arrays by name."""
    interpreter = Interpreter(str(Path(folder) / FILE), num_threads=2)
    return lambda signature, inputs: interpreter.get_signature_runner(signature)(**inputs)


def probes(keras, quantize=None, **options):
    """What the artifact is asked after it was written; the first probe is timed."""
    bundle, sizes = keras.bundle, _sizes_of(keras.bundle, options)
    inputs, length = sizes["inputs"], sizes["length"]
    if inputs in TEXT:
        texts = [_as_text(text) for text in (*comparison.TEXTS, comparison.LONG)]
        return list(text_probes(keras, *questions(bundle, texts, inputs == "pair"), **options))
    masked = code_points.mask_room(length)
    if inputs in ("ids", "mediapipe"):
        batches = [comparison.random_features(bundle, 1, length, masked)]
        shorter = (3, min(9, length))
        batches += [_padded(comparison.random_features(bundle, 1, size, masked), length) for size in shorter]
    else:
        longest = min(17, bundle.config.max_length)
        batches = [comparison.random_features(bundle, *size) for size in ((1, 4), (3, 7), (2, 2), (1, longest))]
    return [_probe_of(keras, features, inputs) for features in batches]


def text_probes(keras, texts, pairs=None, quantize=None, **options):
    """Gives a probe for each text, or text and pair."""
    sizes = _sizes_of(keras.bundle, options)
    text_in = sizes["inputs"] in TEXT
    if text_in and (len(_names(keras.bundle, sizes)) == 2) != (pairs is not None):
        given = "texts" if pairs is None else "pairs of texts"
        raise ValueError(f"The file takes `inputs` {sizes['inputs']!r}, but what it is to be asked are {given}.")
    couples = zip(texts, pairs or [None] * len(texts), strict=True)
    made = _text_probe if text_in else _id_probe
    return (made(keras, *couple, sizes) for couple in couples)


def describe(folder):
    """Counts the operations of all subgraphs; of an int8 file also those that are left in float32."""
    content = (Path(folder) / FILE).read_bytes()
    found = {"operations": tflite_operations.counts(content)}
    if "QUANTIZE" in found["operations"]:
        found["left_out"] = tflite_operations.left_out(content)
    return found


def _sizes_of(bundle, options):
    known = ("inputs", "max_length", "max_code_points", "choices")
    settings = {name: value for name, value in options.items() if name not in known}
    return _sizes(bundle, *(options.get(name) for name in known), settings)


def _sizes(bundle, inputs, max_length, max_code_points, choices, settings):
    """Checks the options and fills them in."""
    takes = signatures.takes(bundle)
    if inputs is None:
        inputs = "text" if takes else "ids"
    if inputs not in INPUTS:
        raise ValueError(f"`inputs` must be one of {', '.join(INPUTS)}, got {inputs!r}.")
    possible = {"text": takes is not None, "pair": signatures.may_take_pairs(bundle)}
    if not possible.get(inputs, True):
        raise ValueError(f"`inputs` of {inputs!r} needs a tokenizer and a head that answers it, got {bundle.head}.")
    if inputs == "mediapipe":
        metadata.check_bundle(bundle)
    if max_length is None:
        max_length = min(MAX_LENGTH, bundle.config.max_length)
    length = checked_length(max_length, bundle)
    for name, value in (("max_code_points", max_code_points), ("choices", choices)):
        if value is not None and (type(value) is not int or value < 1):
            raise ValueError(f"`{name}` must be a positive integer, got {value!r}.")
    if choices is not None and (inputs not in TEXT or takes != "choices"):
        raise ValueError(f"`choices` is for text in of a multiple_choice, got {bundle.head} with `inputs` {inputs!r}.")
    sizes = {"inputs": inputs, "length": length, "chars": max_code_points or 4 * length, "choices": choices or CHOICES}
    if inputs in TEXT:
        return sizes | {"settings": code_points.text_settings(bundle, length, settings)}
    if settings:
        raise ValueError(f"`{next(iter(settings))}` is for answers to texts, got `inputs` {inputs!r}.")
    return sizes


def _names(bundle, sizes):
    return code_points.input_names(bundle, sizes["inputs"] == "pair")


def _function(bundle, sizes):
    """Gives the function to convert and its specs."""
    inputs, length, chars = sizes["inputs"], sizes["length"], sizes["chars"]

    def text(**given):
        return code_points.answer(bundle, sizes["settings"], **given)

    def ids(**features):
        return signatures.model_outputs(bundle, signatures.clamped(bundle, features))

    def one_answer(**features):
        name = metadata.OUTPUTS[bundle.head]  # MediaPipe wants one output
        settings = HEADS[bundle.head].answer.settings
        return {name: signatures.answers(bundle, signatures.clamped(bundle, features), settings)[name]}

    specs = {}
    if inputs in TEXT:
        for name in _names(bundle, sizes):
            choices = name == "code_points_pair" and signatures.takes(bundle) == "choices"
            shape = [1, sizes["choices"], chars] if choices else [1, chars]
            specs[name] = tf.TensorSpec(shape, tf.int32, name=name)
        return text, specs
    for name, free in signatures.id_specs(bundle, tf.int32).items():
        last = code_points.mask_room(length) if name == signatures.MASKED else length
        static = [1, *free.shape[1:-1], last]
        specs[name] = free if inputs == "free_ids" else tf.TensorSpec(static, tf.int32, name=name)
    return one_answer if inputs == "mediapipe" else ids, specs


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
    chars, settings = sizes["chars"], sizes["settings"]
    if signatures.takes(keras.bundle) == "choices":
        pair = [pair[i % len(pair)] for i in range(sizes["choices"])]
    couple = [code_points.cut(one, chars) for one in (text, pair) if one is not None]
    given = {
        name: code_points.encoded(one, chars) for name, one in zip(_names(keras.bundle, sizes), couple, strict=True)
    }

    def expected():
        texts, pairs = [couple[0]], [couple[1]] if len(couple) == 2 else None
        return code_points.expected(keras.bundle, keras, texts, pairs, settings)

    return comparison.Probe("serving_default", given, expected)


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
