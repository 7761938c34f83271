"""Asks a model about a batch of texts on the host: features, the model, answers as arrays."""

import dataclasses

import numpy as np
from keras import ops

from keras_bert.heads import HEADS
from keras_bert.spans import best_of_texts
from keras_bert.tokenization.windows import last_text, own_tokens, text_windows

STRIDE = 128  # tokens that windows share where nothing else is asked for, or a quarter of short ones


@dataclasses.dataclass(frozen=True)
class Asked:
    """A batch of B texts with their answers.

    Args:
        arrays: what the head's `Answer.arrays` gives, as NumPy arrays with B rows.
        features: what the texts became: the model's inputs and what the answers need beside them.
        outputs: the model's, as an array or a dict; of documents the logits of all their tokens (B, N, C).
        written: the texts as the answers' places count in them.
        pairs: the second texts, or None.
        words: of documents, a list of words a text.
    """

    arrays: dict
    features: dict
    outputs: object = None
    written: list | None = None
    pairs: list | None = None
    words: list | None = None


def ask(bundle, texts, pairs, settings, run):
    """Answers one batch; gives `Asked`.

    Args:
        texts, pairs: lists; words or texts for documents, lists of second texts for choices.
        settings: of the head, complete, with "max_length", tokens of an input, and "batch_size", most inputs at a time;
            with "first_window" nothing but the first window of a text is read.
        run: (features) -> the model's output as arrays; `features` may hold more than the model's inputs.
    """
    takes = HEADS[bundle.head].answer.takes
    if takes == "texts" and settings.get("stride") is not None:
        return _whole_texts(bundle, texts, pairs, settings, run)
    return _READERS[takes](bundle, texts, pairs, settings, run)


def ask_ids(bundle, features, settings, run):
    """Answers ids that are there already, with `is_mask` beside `masked_positions`."""
    outputs = run(features)
    return Asked(_arrays(bundle, outputs, features, settings), features, outputs)


def _texts(bundle, texts, pairs, settings, run):
    return ask_ids(bundle, bundle.tokenizer(texts, pairs, max_length=settings["max_length"]), settings, run)


def _masks(bundle, texts, pairs, settings, run):
    tokenizer = bundle.tokenizer
    allowed = (tokenizer.vocab[tokenizer.mask_id],)
    features = tokenizer(texts, pairs, max_length=settings["max_length"], allowed_special=allowed)
    return ask_ids(bundle, with_masked_positions(features, tokenizer.mask_id), settings, run)


def with_masked_positions(features, mask_id):
    """Adds `masked_positions` (B, P) of all masks, and `is_mask` (B, P), 1 where there is one."""
    found = features["token_ids"] == mask_id
    counts = found.sum(axis=1)
    is_mask = (np.arange(max(1, counts.max(initial=0))) < counts[:, None]).astype("int32")
    positions = np.zeros_like(is_mask)
    positions[is_mask > 0] = np.nonzero(found)[1]
    return {**features, "masked_positions": positions, "is_mask": is_mask}


def _choices(bundle, texts, pairs, settings, run):
    count = len(pairs[0])
    first = [text for text in texts for _ in range(count)]
    second = [choice for choices in pairs for choice in choices]
    flat = bundle.tokenizer(first, second, max_length=settings["max_length"])
    features = {name: array.reshape(len(texts), count, -1) for name, array in flat.items()}
    return ask_ids(bundle, features, settings, run)


def _whole_texts(bundle, texts, pairs, settings, run):
    """Answers texts of any length by the mean of their windows' outputs."""
    encodings = bundle.tokenizer.encode_batch(texts, pairs)
    features = windows(bundle.tokenizer, encodings, pairs, settings["max_length"], settings["stride"])
    outputs = _in_parts(features, run, settings["batch_size"])
    index = features["text_index"]
    means = np.zeros((len(texts), *outputs.shape[1:]), outputs.dtype)
    np.add.at(means, index, outputs)
    means /= np.bincount(index, minlength=len(texts)).reshape(-1, *[1] * (outputs.ndim - 1))
    return Asked(_arrays(bundle, means, features, settings), features, means)


def _documents(bundle, texts, _, settings, run):
    written = [text if isinstance(text, str) else " ".join(text) for text in texts]
    encodings = _encoded(bundle.tokenizer, written, None, settings)
    windowed = windows(bundle.tokenizer, encodings, None, settings["max_length"], settings["stride"])
    logits = _in_parts(windowed, run, settings["batch_size"])
    own, rows = windowed["own"] > 0, windowed["text_index"]
    text = np.broadcast_to(rows[:, None], own.shape)[own]
    numbers, borders = zip(*(words_of(*both) for both in zip(encodings, texts, strict=True)), strict=True)
    features = {
        "word_ids": _padded(text, np.concatenate(numbers).astype("int32"), len(texts), -1),
        "offset_starts": _padded(text, windowed["offset_starts"][own], len(texts), 0),
        "offset_ends": _padded(text, windowed["offset_ends"][own], len(texts), 0),
    }
    outputs = _padded(text, logits[own], len(texts), 0)
    named = [[whole[start:end] for start, end in found] for whole, found in zip(written, borders, strict=True)]
    arrays = _arrays(bundle, outputs, features, settings)
    return Asked(arrays, features, outputs, written, words=named)


def words_of(encoding, given):
    """Gives the number of each token's word, and each word's (start, end) in the text.

    Args:
        encoding: of the text, or of words with a blank between them.
        given: the text, whose words are the tokenizer's, or the list of words.
    """
    tokens = list(zip(encoding.word_ids[1:-1], encoding.offsets[1:-1], strict=True))
    if isinstance(given, str):
        borders = {}
        for word, (start, end) in tokens:
            borders[word] = (borders.get(word, (start,))[0], end)
        return [word for word, _ in tokens], list(borders.values())
    ends = np.cumsum([len(word) + 1 for word in given], dtype=int) - 1
    numbers = np.searchsorted(ends, [start for _, (start, _) in tokens], side="right")
    return numbers.tolist(), [(end - len(word), end) for word, end in zip(given, ends.tolist(), strict=True)]


def _contexts(bundle, texts, pairs, settings, run):
    encodings = _encoded(bundle.tokenizer, texts, pairs, settings)
    features = windows(bundle.tokenizer, encodings, pairs, settings["max_length"], settings["stride"])
    top = min(settings["top"], features["inside"].shape[1] * settings["max_answer_tokens"])

    def best(part):
        return _arrays(bundle, run(part), part, settings | {"top": top})

    spans = _in_parts(features, best, settings["batch_size"])
    found = best_of_texts(spans, features["text_index"], len(texts), settings["top"])
    return Asked(found, features, pairs=pairs)


def _encoded(tokenizer, texts, pairs, settings):
    encodings, length = tokenizer.encode_batch(texts, pairs), settings["max_length"]
    if not settings.get("first_window"):
        return encodings
    first = first_text_room(length) if pairs is not None else None
    return [text_windows(encoding, length, 0, first)[0] for encoding in encodings]


def windows(tokenizer, encodings, pairs, max_length, stride):
    """Gives the model's inputs of all windows (W, T), and what `Tokenizer.strings_to_windows` gives beside them.

    Of a pair, the first text is cut to half the room.
    """
    first = first_text_room(max_length) if pairs is not None else None
    stride = window_stride(stride, max_length, pairs is not None)
    cut = [text_windows(encoding, max_length, stride, first) for encoding in encodings]
    width = max((len(window.ids) for found in cut for window in found), default=2)
    names = ("token_ids", "segment_ids", "padding_mask", "offset_starts", "offset_ends", "inside", "own")
    features = {name: np.zeros((sum(map(len, cut)), width), "int32") for name in names}
    features["token_ids"] += tokenizer.pad_id
    rows = [(number, found, window) for found in cut for number, window in enumerate(found)]
    for row, (number, found, window) in enumerate(rows):
        size, begin = len(window.ids), last_text(window)
        features["token_ids"][row, :size] = window.ids
        features["segment_ids"][row, :size] = window.segment_ids
        features["padding_mask"][row, :size] = 1
        features["offset_starts"][row, :size], features["offset_ends"][row, :size] = zip(*window.offsets, strict=True)
        features["inside"][row, begin : size - 1] = 1
        kept = slice(*(begin + place for place in own_tokens(number, len(found), size - 1 - begin, stride)))
        features["own"][row, kept] = 1
    return features | {"text_index": np.repeat(np.arange(len(cut)), [len(found) for found in cut])}


def first_text_room(max_length):
    """The most tokens that a question may have: half of what [CLS] and [SEP] leave."""
    return (max_length - 3) // 2


def window_room(max_length, paired):
    """The tokens that a window has for the text that is cut; a `stride` must be below it."""
    return max_length - 3 - first_text_room(max_length) if paired else max_length - 2


def window_stride(stride, max_length, paired):
    """Gives `stride`, or for None that of `STRIDE`; refuses one that windows have no room for."""
    space = window_room(max_length, paired)
    if space < 1:
        raise ValueError(f"`max_length` must be at least 4 for two texts, got {max_length}.")
    if stride is None:
        return min(STRIDE, max_length // 4, space - 1)
    if stride >= space:
        raise ValueError(f"`stride` must be below {space} where `max_length` is {max_length}, got {stride}.")
    return stride


def _in_parts(features, run, size):
    """Runs on at most `size` windows at a time, and puts the arrays of all together."""
    count = len(features["text_index"])
    parts = [
        run({name: values[start : start + size] for name, values in features.items()})
        for start in range(0, count, size)
    ]
    if isinstance(parts[0], dict):
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return np.concatenate(parts)


def _padded(rows, values, count, filler):
    """Puts values (P, ...) in `count` rows, each in its row (P,), in their order: (count, N, ...)."""
    sizes = np.bincount(rows, minlength=count)
    padded = np.full((count, max(1, sizes.max(initial=0)), *values.shape[1:]), filler, values.dtype)
    padded[rows, np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)] = values
    return padded


def _arrays(bundle, outputs, features, settings):
    found = HEADS[bundle.head].answer.arrays(outputs, features, bundle, settings)
    return {name: np.asarray(ops.convert_to_numpy(value)) for name, value in found.items()}


_READERS = {
    "texts": _texts,
    "pairs": _texts,
    "masks": _masks,
    "choices": _choices,
    "documents": _documents,
    "contexts": _contexts,
}
