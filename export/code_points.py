"""Answers to code points, for formats without strings: fixed lengths, in `keras.ops`; labels and words as ids."""

import numpy as np
from keras import ops

from keras_bert.asking import first_text_room
from keras_bert.export import signatures
from keras_bert.export.masks import with_masked_positions
from keras_bert.spans import settled
from keras_bert.tokenization.gathering import take
from keras_bert.tokenization.locating import located_features

NOTHING = -1  # the id where there is no label or word


def input_names(bundle, paired=False):
    """Names of the inputs: `code_points` and, where there is a second text or choices, `code_points_pair`."""
    two = len(signatures.TEXT_INPUTS[signatures.takes(bundle)]) == 2
    return ("code_points", "code_points_pair")[: 1 + (paired or two)]


def answer(bundle, settings, code_points, code_points_pair=None):
    """Gives the head's named answers, each text cut to its first "max_length" tokens.

    Args:
        settings: of the head, complete, with "max_length".
        code_points: (B, C) int32, padded with 0; code_points_pair: the same, for choices (B, N, C).

    Returns:
        As `saved_model.write` has it, of fixed sizes: E and T are the "max_length", M is `mask_room` of it. Labels,
        words and types of entities are ids, -1 for none; a span has no `answer`, which its places are enough for.
    """
    takes, length = signatures.takes(bundle), settings["max_length"]
    if takes == "documents":
        features = located_features(bundle.tokenizer, code_points, length=length)
        return signatures.answers(bundle, features, settings)
    if takes == "contexts":
        most = first_text_room(length)
        features = located_features(bundle.tokenizer, code_points, code_points_pair, length, most)
        return _best(signatures.answers(bundle, features, settings), settings)
    allowed = (bundle.tokenizer.vocab[bundle.tokenizer.mask_id],) if takes == "masks" else ()
    if takes == "choices":
        shape = ops.shape(code_points_pair)
        count = shape[1]
        rows = ops.arange(shape[0] * count) // count
        code_points, code_points_pair = take(code_points, rows), ops.reshape(code_points_pair, (-1, shape[2]))
    features = bundle.tokenizer.code_points_to_features(code_points, code_points_pair, length, allowed)
    if takes == "choices":
        features = {name: ops.reshape(ids, (*shape[:2], length)) for name, ids in features.items()}
    if takes == "masks":
        features = with_masked_positions(features, bundle.tokenizer.mask_id, mask_room(length))
    return signatures.answers(bundle, features, settings)


def text_settings(bundle, max_length, given):
    """`signatures.text_settings`, without windows."""
    settings = signatures.text_settings(bundle, max_length, given)
    if settings.get("stride") is not None:
        raise ValueError(
            f"`stride` is for `predict` and SavedModels, whose windows hold whole texts: with code points in, a "
            f"{bundle.head} reads the first {settings['max_length']} tokens; cut longer texts before."
        )
    return settings


def mask_room(length):
    """Room for masked positions in T tokens: BERT's 15%."""
    return max(1, round(0.15 * length))


def expected(bundle, keras, texts, pairs, settings):
    """What `answer` has to give, as NumPy arrays, by the way that `predict` goes; `keras` is a `signatures.Keras`."""
    takes, length = signatures.takes(bundle), settings["max_length"]
    found = keras.asked(texts, pairs, settings | {"first_window": True}).arrays
    if takes == "contexts":
        return {name: np.asarray(values) for name, values in _best(found, settings).items()}
    if takes == "masks":
        room = mask_room(length)
        return {name: _resized(values, room, NOTHING if name == "words" else 0) for name, values in found.items()}
    if takes == "documents":
        fillers = {name: 0 if name == "entity_score" else NOTHING for name in found}
        return {name: _resized(values, length, fillers[name]) for name, values in found.items()}
    if bundle.head == "replaced_token_detector":
        return {name: _resized(values, length, 0) for name, values in found.items()}
    return found


def encoded(text, chars):
    """Gives int32 (1, C): the text's code points, cut at C and padded with 0; (1, N, C) for a list of choices."""
    if not isinstance(text, str):
        return np.stack([encoded(one, chars) for one in text], axis=1)
    points = np.zeros((1, chars), "int32")
    found = np.frombuffer(text[:chars].encode("utf-32-le", "surrogatepass"), "int32")
    points[0, : len(found)] = found
    return points


def cut(text, chars):
    """Gives the first `chars` characters of a text, or of each of a list of choices."""
    if text is None:
        return None
    return text[:chars] if isinstance(text, str) else [cut(one, chars) for one in text]


def _best(found, settings):
    best = {name: values if name == "null_score" else values[:, 0] for name, values in found.items()}
    return settled(best, settings["null_threshold"])


def _resized(values, size, filler):
    """Cuts or fills up the second axis."""
    values = values[:, :size]
    fill = [(0, 0), (0, size - values.shape[1]), *[(0, 0)] * (values.ndim - 2)]
    return np.pad(values, fill, constant_values=filler)
