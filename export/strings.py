"""Answers to tensors of strings, by core TensorFlow operations: what a head takes decides."""

import numpy as np
import tensorflow as tf

from keras_bert.asking import first_text_room, window_stride
from keras_bert.entities import scheme_of
from keras_bert.export import signatures
from keras_bert.export.masks import with_masked_positions
from keras_bert.spans import settled


def answer(bundle, settings, text, second=None):
    """Gives the head's named answers, labels and words as strings.

    Args:
        settings: of the head, complete, with "max_length".
        text, second: (B,) string; choices (B, N).
    """
    return _ANSWERS[signatures.takes(bundle)](bundle, settings, text, second)


def _texts(bundle, settings, text, text_pair):
    if settings.get("stride") is not None:
        return _whole_texts(bundle, settings, text, text_pair)
    features = bundle.tokenizer.strings_to_features(text, text_pair, max_length=settings["max_length"])
    return _named(bundle, signatures.answers(bundle, features, settings))


def _whole_texts(bundle, settings, text, text_pair):
    windows = _windows(bundle, settings, text, text_pair)
    means = tf.math.unsorted_segment_mean(_outputs(bundle, windows, settings), windows["text_index"], tf.size(text))
    return _named(bundle, signatures.answered(bundle, means, windows, settings))


def _masks(bundle, settings, text, text_pair):
    tokenizer = bundle.tokenizer
    allowed = (tokenizer.vocab[tokenizer.mask_id],)
    features = tokenizer.strings_to_features(text, text_pair, settings["max_length"], allowed)
    features = with_masked_positions(features, tokenizer.mask_id)
    return _named(bundle, signatures.answers(bundle, features, settings))


def _choices(bundle, settings, text, choices):
    count = tf.shape(choices)[1]
    flat = tf.repeat(text, count), tf.reshape(choices, [-1])
    features = bundle.tokenizer.strings_to_features(*flat, max_length=settings["max_length"])
    shape = [tf.shape(text)[0], count, tf.shape(features["token_ids"])[1]]
    features = {name: tf.reshape(values, shape) for name, values in features.items()}
    return signatures.answers(bundle, features, settings)


def _documents(bundle, settings, text, _):
    windows = _windows(bundle, settings, text, None)
    logits = _outputs(bundle, windows, settings)
    own, count = windows["own"] > 0, tf.shape(text, tf.int64)[0]
    rows = tf.boolean_mask(tf.broadcast_to(tf.expand_dims(windows["text_index"], 1), tf.shape(own)), own)
    rows = tf.cast(rows, tf.int64)

    def padded(values, filler):
        values = tf.boolean_mask(values, own)
        return tf.RaggedTensor.from_value_rowids(values, rows, count, validate=False).to_tensor(filler)

    names = ("word_ids", "offset_starts", "offset_ends")
    features = {name: padded(windows[name], -1 if name == "word_ids" else 0) for name in names}
    found = _named(bundle, signatures.answered(bundle, padded(logits, 0.0), features, settings))
    most = tf.reduce_max(tf.pad(tf.reduce_sum(tf.cast(found["entity_start"] >= 0, tf.int32), axis=1), [[0, 1]]))
    return {name: values[:, :most] for name, values in found.items()}


def _contexts(bundle, settings, question, context):
    windows = _windows(bundle, settings, question, context)
    found = in_parts(lambda part: signatures.answers(bundle, part, settings), windows, settings["batch_size"])
    index, count = windows["text_index"], tf.size(question)
    found = {name: values if name == "null_score" else values[:, 0] for name, values in found.items()}
    best = tf.math.unsorted_segment_max(found["score"], index, count)
    rows = tf.range(tf.size(index))
    first = tf.where(tf.equal(found["score"], tf.gather(best, index)), rows, tf.size(index))
    first = tf.math.unsorted_segment_min(first, index, count)
    null_score = tf.math.unsorted_segment_min(found["null_score"], index, count)
    found = {name: tf.gather(found[name], first) for name in ("start", "end", "score")} | {"null_score": null_score}
    found = settled(found, settings["null_threshold"])
    return {"answer": cut_out(context, found["start"], found["end"])} | found


def _windows(bundle, settings, text, second):
    length, paired = settings["max_length"], second is not None
    stride = window_stride(settings["stride"], length, paired)
    return bundle.tokenizer.strings_to_windows(text, second, length, stride, max_first=first_text_room(length))


def _outputs(bundle, windows, settings):
    """The model's output for each window."""

    def run(part):
        return {"output": signatures.run_model(bundle, part)}

    return in_parts(run, windows, settings["batch_size"])["output"]


def in_parts(function, features, size):
    """Calls a function of tensors on `size` rows at a time, and puts what it gives together.

    Args:
        function: dict of tensors -> dict of tensors, each with a row for each row.
        features: dict of tensors (W, ...).
    """
    specs = {name: tf.TensorSpec([None, *values.shape[1:]], values.dtype) for name, values in features.items()}
    traced = tf.function(function, autograph=False).get_concrete_function(specs)
    count = tf.shape(features["token_ids"])[0]
    made = {
        name: tf.TensorArray(tensor.dtype, 1, dynamic_size=True, infer_shape=False, element_shape=tensor.shape)
        for name, tensor in traced.structured_outputs.items()
    }

    def step(start, made):
        found = traced({name: values[start : start + size] for name, values in features.items()})
        return start + size, {name: array.write(start // size, found[name]) for name, array in made.items()}

    # once for none: there has to be something to put together
    loop = (lambda start, _: (start < count) | tf.equal(start, 0), step, (0, made))
    _, made = tf.while_loop(*loop, parallel_iterations=1)
    return {name: array.concat() for name, array in made.items()}


def cut_out(text, start, end):
    """The part of each string (B,) from `start` to `end`, (B,) int32 in code points; "" where they are negative."""
    letters = tf.strings.unicode_decode(text, "UTF-8", errors="replace")
    origin = tf.cast(letters.row_starts(), tf.int32)
    places = tf.ragged.range(origin + tf.maximum(start, 0), origin + tf.maximum(end, 0))
    return tf.strings.unicode_encode(places.with_values(tf.gather(letters.values, places.values)), "UTF-8")


def names_of(bundle):
    """Gives, by answer, the strings of its ids; the last one is that of -1."""
    if signatures.takes(bundle) == "documents":
        return {"entity_label": [*scheme_of(bundle.labels).names, ""]}
    if signatures.takes(bundle) == "masks":
        return {"words": [*bundle.tokenizer.vocab, ""]}
    return {} if bundle.labels is None else {"label": [*bundle.labels, ""]}


def _named(bundle, found):
    for name, strings in names_of(bundle).items():
        ids = found[name]
        found[name] = tf.gather(tf.constant(strings), tf.where(ids < 0, len(strings) - 1, ids))
    return found


def expected(bundle, asked, settings):
    """What `answer` has to give, as NumPy arrays, from what `predict` found: `asking.Asked`."""
    found = dict(asked.arrays)
    if signatures.takes(bundle) == "documents":
        most = int((found["entity_start"] >= 0).sum(axis=1).max(initial=0))
        found = {name: values[:, :most] for name, values in found.items()}
    if signatures.takes(bundle) == "contexts":
        best = {name: values if name == "null_score" else values[:, 0] for name, values in found.items()}
        found = {name: np.asarray(values) for name, values in settled(best, settings["null_threshold"]).items()}
        places = zip(asked.pairs, found["start"], found["end"], strict=True)
        texts = [text[max(0, start) : max(0, end)].encode("utf-8", "replace") for text, start, end in places]
        found["answer"] = np.array(texts, object)
    for name, strings in names_of(bundle).items():
        found[name] = np.array([text.encode() for text in strings], object)[found[name]]
    return found


_ANSWERS = {
    "texts": _texts,
    "pairs": _texts,
    "masks": _masks,
    "choices": _choices,
    "documents": _documents,
    "contexts": _contexts,
}
