"""SavedModel, by TensorFlow: strings or ids in, with core operations only."""

import collections
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_bert.export import comparison, signatures
from keras_bert.prediction import checked_length

FILE = "saved_model.pb"
ALLOWED = 1e-6
INTEGERS = "int32"


def write(bundle, folder, max_length=None):
    """Writes a SavedModel that answers without this package.

    Signatures:
        serving_default: `text` (B,) string -> the head's answers, labels as strings. Where the head takes a text.
        serving_pair: `text` and `text_pair` -> the same. A signature by itself, because TensorFlow Serving knows no
            optional inputs, and an empty second text is not the same as none.
        serving_ids, serving_ids_int64: the model's inputs (B, T) -> the model's output. Ids that are out of range and
            texts that are too long are refused.

    Args:
        max_length: tokens; longer texts are truncated. By default the bundle's own, or all that the model has positions
            for.
    """
    # The weights as plain variables: a module that holds only the model loses them, and ExportArchive with `track`
    # writes them twice.
    module = tf.Module()
    module.weights = [weight.value for weight in bundle.model.weights]
    with tempfile.TemporaryDirectory() as made:
        module.files = [tf.saved_model.Asset(str(path)) for path in signatures.write_names(bundle, Path(made))]
        functions = {name: function(*specs) for name, function, specs in _functions(bundle, max_length)}
        tf.saved_model.save(module, str(folder), signatures=functions)


def load(folder):
    """Loads the folder by TensorFlow; gives (signature, inputs) -> arrays by name."""
    loaded = tf.saved_model.load(str(folder))

    def run(signature, inputs):
        outputs = loaded.signatures[signature](**{name: tf.constant(value) for name, value in inputs.items()})
        return {name: value.numpy() for name, value in outputs.items()}

    return run


def probes(keras, max_length=None):
    """What the artifact is asked after it was written; the first probe is timed."""
    found, bundle = [], keras.bundle
    if signatures.takes_text(bundle):
        batches = [[comparison.SHORT], list(comparison.TEXTS), [comparison.LONG]]
        found += [_text_probe(keras, texts, None, max_length) for texts in batches]
    if signatures.takes_pairs(bundle):
        found.append(_text_probe(keras, comparison.TEXTS, comparison.TEXTS[::-1], max_length))
    longest = bundle.config.max_length
    for signature, dtype in (("serving_ids", "int32"), ("serving_ids_int64", "int64")):
        for batch, length in ((1, 3), (4, 17)):
            features = comparison.random_features(bundle, batch, min(length, longest))
            found.append(comparison.id_probe(keras, signature, features, dtype))
    return found


def text_probes(keras, texts, pairs=None, max_length=None):
    """Gives a probe for each text, or text and pair."""
    bundle, length = keras.bundle, checked_length(max_length, keras.bundle)
    for text, pair in zip(texts, pairs or [None] * len(texts), strict=True):
        pair = pair if pair is None else [pair]
        if signatures.takes_text(bundle):
            yield _text_probe(keras, [text], pair, max_length)
        else:
            yield comparison.id_probe(keras, "serving_ids", bundle.tokenizer([text], pair, max_length=length))


def describe(folder):
    """Counts the operations of the graph and of all its functions."""
    model = saved_model_pb2.SavedModel()
    model.ParseFromString((Path(folder) / FILE).read_bytes())
    graph = model.meta_graphs[0].graph_def
    nodes = [node for function in graph.library.function for node in function.node_def]
    return {"operations": dict(collections.Counter(node.op for node in [*graph.node, *nodes]).most_common())}


def _functions(bundle, max_length):
    """Gives (signature, function of tensor specs -> concrete function, specs)."""
    max_length = checked_length(max_length, bundle)

    def answer(text, text_pair=None):
        features = bundle.tokenizer.strings_to_features(text, text_pair, max_length=max_length)
        found = signatures.answers(bundle, features)
        if "label" in found and bundle.labels is not None:
            found["label"] = tf.gather(tf.constant(bundle.labels), found["label"])
        return found

    def output(**features):
        return signatures.model_outputs(bundle, _checked(bundle, features))

    text, text_pair = (tf.TensorSpec([None], tf.string, name=name) for name in ("text", "text_pair"))
    found = []
    if signatures.takes_text(bundle):
        found.append(("serving_default", _traced(answer), [text]))
    if signatures.takes_pairs(bundle):
        found.append(("serving_pair", _traced(answer), [text, text_pair]))
    for name, dtype in (("serving_ids", tf.int32), ("serving_ids_int64", tf.int64)):
        found.append((name, lambda specs: _traced(output)(**specs), [signatures.id_specs(bundle, dtype)]))
    return found


def _traced(function):
    return tf.function(function, autograph=False).get_concrete_function


def _checked(bundle, features):
    """Gives int32 ids behind assertions that name the limits."""
    length = tf.shape(features["token_ids"])[-1]
    longest = bundle.config.max_length
    checks = [
        tf.debugging.assert_less_equal(length, longest, f"`token_ids` has more than {longest} tokens a text."),
        tf.debugging.assert_positive(length, "`token_ids` must have at least one token a text."),
    ]
    for name, limit in signatures.limits(bundle):
        top, said = (limit, limit - 1) if limit else (length, "the last token")
        message = f"`{name}` must be from 0 to {said}."
        values = features[name]
        checks.append(tf.debugging.assert_non_negative(values, message))
        checks.append(tf.debugging.assert_less(values, tf.cast(top, values.dtype), message))
    with tf.control_dependencies(checks):
        # identity: a cast to the same type is no operation, and would not wait
        return {name: tf.cast(tf.identity(values), tf.int32) for name, values in features.items()}


def _text_probe(keras, texts, pairs, max_length):
    labels, max_length = keras.bundle.labels, checked_length(max_length, keras.bundle)

    def expected():
        found = keras.answers(texts, pairs, max_length)
        if "label" in found and labels is not None:
            found["label"] = np.array([labels[i].encode() for i in found["label"]], object)
        return found

    inputs = {"text": _strings(texts)} | ({} if pairs is None else {"text_pair": _strings(pairs)})
    return comparison.Probe("serving_default" if pairs is None else "serving_pair", inputs, expected)


def _strings(texts):
    return np.array([text.encode() if isinstance(text, str) else text for text in texts], object)
