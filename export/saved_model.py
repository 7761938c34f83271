"""SavedModel, by TensorFlow: strings or ids in, with core operations only."""

import collections
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_bert.export import comparison, signatures, strings, warmup
from keras_bert.export.questions import questions

FILE = "saved_model.pb"
ALLOWED = 1e-6
INTEGERS = "int32"


def write(bundle, folder, max_length=None, **settings):
    """Writes a SavedModel that answers without this package.

    Signatures:
        serving_default: strings -> the head's answers, with labels and words as strings. B texts, any number:
            `text` (B,): sequence_classifier -> `label` (B,), `probabilities` (B, C); sequence_regressor -> `score`
            (B,); sentence_embedder -> `embedding` (B, D); replaced_token_detector -> `probabilities` (B, T), with [CLS]
            and [SEP], 0 at padding; masked_language_model, where [MASK] in a text is one -> `words`, `probabilities`
            (B, M, K), the likeliest first, "" and 0 where a text has fewer masks; token_classifier, for texts of any
            length -> `entity_start`, `entity_end`, `entity_label`, `entity_score` (B, E), -1, -1, "" and 0 behind a
            text's last entity.
            `text`, `text_pair` (B,): next_sentence -> `probabilities` (B, 2), that the second text follows and that it
            does not; reranker -> `score` (B,).
            `text` (B,), `choices` (B, N): multiple_choice -> `choice` (B,) int32, `probabilities` (B, N).
            `question`, `context` (B,), contexts of any length: span_extractor -> `answer`, `start`, `end`, `score`,
            `null_score` (B,), "", -1, -1 for no answer.
            Places are half-open and count Unicode code points.
            With `stride` a sequence_classifier takes texts of any length too, by the mean logits of their windows.
        serving_pair: `text` and `text_pair` (B,) -> the same, where a head takes one text or two. A signature by
            itself, because TensorFlow Serving knows no optional inputs, and an empty second text is not the same as
            none. Left out where a `stride` has no room beside a first text, with which `predict` refuses pairs too.
        serving_ids, serving_ids_int64: the model's inputs (B, T) -> the model's output. Ids that are out of range and
            texts that are too long are refused. `segment_ids` are zeros by default: what reads a signature's defaults,
            as `keras-bert serve` does, lets a client leave them out; in Python `np.zeros((1, 1))` is enough.

    `assets` has the vocabulary and the labels, `assets.extra` the requests by which TensorFlow Serving warms up.

    Args:
        max_length: tokens; longer texts are truncated, or cut into windows of that length. By default the bundle's own,
            or all that the model has positions for.
        settings: those of `keras_bert.predict` for this head, but for `top` of spans.
    """
    settings = signatures.text_settings(bundle, max_length, settings)
    # The weights as plain variables: a module that holds only the model loses them, and ExportArchive with `track`
    # writes them twice.
    module = tf.Module()
    module.weights = [weight.value for weight in bundle.model.weights]
    with tempfile.TemporaryDirectory() as made:
        module.files = [tf.saved_model.Asset(str(path)) for path in signatures.write_names(bundle, Path(made))]
        tf.saved_model.save(module, str(folder), signatures=_functions(bundle, settings))
    warmup.write(folder, _requests(bundle, settings))


def load(folder):
    """Loads the folder by TensorFlow; gives (signature, inputs) -> arrays by name."""
    loaded = tf.saved_model.load(str(folder))

    def run(signature, inputs):
        outputs = loaded.signatures[signature](**{name: tf.constant(value) for name, value in inputs.items()})
        return {name: value.numpy() for name, value in outputs.items()}

    return run


def probes(keras, max_length=None, **settings):
    """What the artifact is asked after it was written; the first probe is timed."""
    found, bundle = [], keras.bundle
    settings = signatures.text_settings(bundle, max_length, settings)
    if signatures.takes(bundle):
        batches = [[comparison.SHORT], list(comparison.TEXTS), [comparison.LONG]]
        found += [_text_probe(keras, *questions(bundle, texts), settings) for texts in batches]
    if signatures.may_take_windowed_pairs(bundle, settings):
        found.append(_text_probe(keras, *questions(bundle, comparison.TEXTS, paired=True), settings))
    longest = bundle.config.max_length
    for signature, dtype in (("serving_ids", "int32"), ("serving_ids_int64", "int64")):
        for batch, length in ((1, 3), (4, 17)):
            features = comparison.random_features(bundle, batch, min(length, longest))
            found.append(comparison.id_probe(keras, signature, features, dtype))
    return found


def text_probes(keras, texts, pairs=None, max_length=None, **settings):
    """Gives a probe for each text, or text and pair."""
    bundle = keras.bundle
    settings = signatures.text_settings(bundle, max_length, settings)
    for text, pair in zip(texts, pairs or [None] * len(texts), strict=True):
        pair = pair if pair is None else [pair]
        if signatures.takes(bundle):
            yield _text_probe(keras, [text], pair, settings)
        else:
            features = bundle.tokenizer([text], pair, max_length=settings["max_length"])
            yield comparison.id_probe(keras, "serving_ids", features)


def describe(folder):
    """Counts the operations of the graph and of all its functions."""
    model = saved_model_pb2.SavedModel()
    model.ParseFromString((Path(folder) / FILE).read_bytes())
    graph = model.meta_graphs[0].graph_def
    nodes = [node for function in graph.library.function for node in function.node_def]
    return {"operations": dict(collections.Counter(node.op for node in [*graph.node, *nodes]).most_common())}


def _functions(bundle, settings):
    """Gives the functions of all signatures, by name."""

    def answer(*texts):
        return strings.answer(bundle, settings, *texts)

    found = {}
    for signature, names in _text_signatures(bundle, settings).items():
        specs = [tf.TensorSpec([None, None] if name == "choices" else [None], tf.string, name=name) for name in names]
        found[signature] = tf.function(answer, autograph=False).get_concrete_function(*specs)
    for signature, dtype in (("serving_ids", tf.int32), ("serving_ids_int64", tf.int64)):
        found[signature] = _function_of_ids(bundle, dtype)
    return found


def _function_of_ids(bundle, dtype):
    """Gives a function whose last argument has a default, which TensorFlow writes beside the signature."""
    specs = signatures.id_specs(bundle, dtype)
    segments = specs.pop("segment_ids")
    nothing = tf.zeros([1] * len(segments.shape), dtype)

    def output(features, segment_ids=nothing):
        segment_ids = segment_ids + tf.zeros_like(features["token_ids"])
        return signatures.model_outputs(bundle, _checked(bundle, {**features, "segment_ids": segment_ids}))

    return tf.function(output, input_signature=[specs, segments], autograph=False)


def _text_signatures(bundle, settings):
    """Gives the names of the strings that each signature takes."""
    takes = signatures.takes(bundle)
    found = {} if takes is None else {"serving_default": signatures.TEXT_INPUTS[takes]}
    pairs = signatures.may_take_windowed_pairs(bundle, settings)
    return found | ({"serving_pair": signatures.TEXT_INPUTS["pairs"]} if pairs else {})


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


def _text_probe(keras, texts, pairs, settings):
    bundle = keras.bundle
    paired = pairs is not None and signatures.may_take_pairs(bundle)
    signature = "serving_pair" if paired else "serving_default"
    names = signatures.TEXT_INPUTS["pairs" if paired else signatures.takes(bundle)]

    def expected():
        return strings.expected(bundle, keras.asked(texts, pairs, settings), settings)

    return comparison.Probe(signature, _string_inputs(names, texts, pairs), expected)


def _string_inputs(names, texts, pairs):
    values = (texts,) if pairs is None else (texts, pairs)
    return dict(zip(names, map(_strings, values), strict=True))


def _strings(texts):
    """Gives an object array of bytes (B,), or (B, N) for lists of choices."""
    if texts and isinstance(texts[0], list | tuple):
        return np.stack([_strings(row) for row in texts])
    return np.array([text.encode() if isinstance(text, str) else text for text in texts], object)


def _requests(bundle, settings):
    """What warms the model up: each signature for one short text, and for a batch of others."""
    found = []
    for signature, names in _text_signatures(bundle, settings).items():
        for texts in ([comparison.SHORT], list(comparison.TEXTS[:4])):
            asked = questions(bundle, texts, paired=signature == "serving_pair")
            found.append((signature, _string_inputs(names, *asked)))
    for signature, dtype in (("serving_ids", "int32"), ("serving_ids_int64", "int64")):
        features = comparison.random_features(bundle, 1, min(12, bundle.config.max_length))
        found.append((signature, {name: values.astype(dtype) for name, values in features.items()}))
    return found
