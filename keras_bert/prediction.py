"""Texts, or ids, to answers: checked, batched by length, given back in their order."""

import numpy as np

from keras_bert.answers import checked_settings
from keras_bert.asking import ask, ask_ids, window_stride, with_masked_positions
from keras_bert.heads import HEADS


def predict(bundle, texts, pairs=None, batch_size=32, max_length=None, **settings):
    """Answers texts: sorted by length, batched, padded to the longest of a batch, given back in their order.

    Args:
        texts: list of str; for a token_classifier also of lists of words; or a dict of id arrays (n, T) with the
            model's inputs (all but `token_ids` may be left out), where an answer needs no text.
        pairs: list of str, the second texts (the contexts of questions, the passages of queries), or None; for
            multiple_choice a list of lists of str, the choices.
        batch_size: most inputs that the model has at a time.
        max_length: tokens of an input. By default the bundle's own, or all that the model has positions for. Longer
            texts are truncated; those of a token_classifier and contexts are cut into windows and answered whole.
        settings: of the head: for a token_classifier and a span_extractor `stride`, tokens that windows have in common
            (by default 128, or a quarter of a short `max_length`); for a sequence_classifier too, whose longer texts
            are then answered by the mean logits of windows; for a span_extractor `max_answer_tokens` (30),
            `null_threshold` (no answer where `null_score` is higher than the score by more, 0.0), `top` (spans, 1); for
            a masked_language_model `top` (words, 5); for a sentence_embedder `dimensions`, the first ones that stay.

    Returns:
        a list with, for each text, by head, where places are half-open in code points:
        sequence_classifier: {"label", "probabilities"}; sequence_regressor, reranker: a float;
        next_sentence: a float, the probability that the second text follows;
        token_classifier: {"entities": [{"start", "end", "label", "score", "text"}], "words", "labels"}: places in the
        text, or in the words with blanks between them; a label for each word;
        span_extractor: {"answer", "start", "end", "score", "null_score"}, places in the context; the first three are
        None where there is no answer; with `top` above 1 "others", the next ones;
        multiple_choice: {"choice", "probabilities"}; replaced_token_detector: {"tokens", "probabilities"};
        masked_language_model: per [MASK] of the text, the likeliest {"word", "probability"};
        sentence_embedder: not a list, but an array (n, D) float32. Without texts an empty list.

    Raises:
        ValueError: the head has no answer for a text, the texts are not what it takes, or a setting is wrong.
    """
    head = HEADS.get(bundle.head)
    if head is None or head.answer is None:
        raise ValueError(f"`predict` needs a head with an answer, got {bundle.head}.")
    if type(batch_size) is not int or batch_size < 1:
        raise ValueError(f"`batch_size` must be a positive integer, got {batch_size!r}.")
    settings = checked_settings(bundle, head, settings) | {"batch_size": batch_size}
    if head.answer.takes == "masks" and bundle.tokenizer is None:
        raise ValueError("`predict` needs a tokenizer to find [MASK] and to name words, but the bundle has none.")

    def run(features):
        return bundle.model.predict_on_batch({name: features[name] for name in bundle.model.input})

    if isinstance(texts, dict):
        if pairs is not None:
            raise ValueError("`pairs` go with texts; with ids, `segment_ids` tell the second text.")
        asked = _batches_of_ids(bundle, texts, settings, run)
    else:
        check_asked(bundle, texts, pairs)
        asked = _batches_of_texts(bundle, texts, pairs, max_length, settings, run)
    answers = {}
    for chosen, batch in asked:
        answers |= zip(chosen, head.answer.rows(batch, bundle, settings), strict=True)
    rows = [answers[i] for i in sorted(answers)]
    return np.stack(rows) if rows and isinstance(rows[0], np.ndarray) else rows


def _batches_of_texts(bundle, texts, pairs, max_length, settings, run):
    """Gives (numbers of the texts, `Asked`) for each batch."""
    # lists, because a table's column may have numbers of its own for its rows
    texts, pairs = list(texts), None if pairs is None else list(pairs)
    if bundle.tokenizer is None:
        reason = bundle.report.no_tokenizer if bundle.report else "the bundle was made without one."
        raise ValueError(f"`predict` needs a tokenizer for texts, but {reason}")
    settings = settings | {"max_length": checked_length(max_length, bundle)}
    if "stride" in settings:
        window_stride(settings["stride"], settings["max_length"], pairs is not None)
    takes_choices = HEADS[bundle.head].answer.takes == "choices"
    counts = [len(choices) for choices in pairs] if takes_choices else [0] * len(texts)
    lengths = [_size(text) + (_size(pairs[i]) if pairs else 0) for i, text in enumerate(texts)]
    order = sorted(range(len(texts)), key=lambda i: (counts[i], lengths[i]))
    start = 0
    while start < len(order):
        chosen = [i for i in order[start : start + settings["batch_size"]] if counts[i] == counts[order[start]]]
        start += len(chosen)
        seconds = [pairs[i] for i in chosen] if pairs is not None else None
        yield chosen, ask(bundle, [texts[i] for i in chosen], seconds, settings, run)


def _batches_of_ids(bundle, features, settings, run):
    features = check_features(features, bundle.config)
    takes = HEADS[bundle.head].answer.takes
    if takes in ("documents", "contexts", "choices"):
        raise ValueError(f"`predict` takes texts for a {bundle.head}, got ids.")
    if takes == "masks" and "masked_positions" not in features:
        features = with_masked_positions(features, bundle.tokenizer.mask_id)
    elif takes == "masks":
        features["is_mask"] = np.ones_like(features["masked_positions"])
    for start in range(0, len(features["token_ids"]), settings["batch_size"]):
        part = {name: values[start : start + settings["batch_size"]] for name, values in features.items()}
        yield range(start, start + len(part["token_ids"])), ask_ids(bundle, part, settings, run)


def _size(text):
    return len(text) if isinstance(text, str) else sum(map(len, text))


def check_asked(bundle, texts, pairs=None):
    """Refuses what the head does not take: anything but lists of str, pairs of another number, or none at all."""
    head = HEADS.get(bundle.head)
    takes = "texts" if head is None or head.answer is None else head.answer.takes
    if takes == "documents" and pairs is not None:
        raise ValueError(f"`{bundle.head}` takes texts without `pairs`.")
    if pairs is None and takes in _SECOND:
        raise ValueError(f"`{bundle.head}` needs `pairs`, {_SECOND[takes]}.")
    for name, values, lists in (("texts", texts, takes == "documents"), ("pairs", pairs, takes == "choices")):
        if values is not None or name == "texts":
            _check_strings(name, values, lists)
    if pairs is not None and len(pairs) != len(texts):
        raise ValueError(f"`texts` and `pairs` must be equally many, got {len(texts)} and {len(pairs)}.")
    if takes == "choices":
        for i, choices in enumerate(pairs):
            if isinstance(choices, str) or len(choices) == 0:
                raise ValueError(f"`pairs[{i}]` must be a list of choices, got {choices!r}.")


_SECOND = {
    "pairs": "a second text for each",
    "contexts": "the context of each question",
    "choices": "a list of choices for each text",
}


def _check_strings(name, values, lists):
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise ValueError(f"`{name}` must be a list of strings, got {type(values).__name__}.")
    for i, value in enumerate(values):
        parts = value if lists and isinstance(value, list | tuple) else [value]
        wrong = next((part for part in parts if not isinstance(part, str)), None)
        if wrong is not None:
            raise ValueError(f"`{name}[{i}]` must be a string, got {type(wrong).__name__}.")


def check_features(features, config):
    """Refuses ids that are outside the vocabulary, and texts that are longer than the model has positions for.

    Args:
        features: dict with `token_ids` and the model's other inputs, arrays (B, T) of integers.

    Returns:
        `features` as arrays; where they are left out, with segments of zeros and the mask that the pad id gives.
    """
    if features.get("token_ids") is None:
        raise ValueError(f"`token_ids` is missing, got {', '.join(features) or 'nothing'}.")
    ids = np.asarray(features["token_ids"])
    if not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(f"`token_ids` must be integers, got {ids.dtype}.")
    if ids.ndim != 2:
        raise ValueError(f"`token_ids` must have the shape (B, T), got {ids.shape}.")
    if ids.shape[1] > config.max_length:
        raise ValueError(
            f"`token_ids` has {ids.shape[1]} tokens a text, the model has {config.max_length} positions. "
            "Truncate the texts."
        )
    if not ids.shape[1]:
        raise ValueError("`token_ids` must have at least one token a text, got none.")
    for name, limit in id_limits(config).items():
        if features.get(name) is None:
            continue
        values = np.asarray(features[name])
        if values.shape != ids.shape:
            raise ValueError(f"`{name}` must have the shape of `token_ids`, {ids.shape}, got {values.shape}.")
        if values.size and not (0 <= values.min() and values.max() < limit):
            worst = values.max() if values.max() >= limit else values.min()
            raise ValueError(f"`{name}` must be from 0 to {limit - 1}, got {worst}.")
    given = {name: np.asarray(value) for name, value in features.items() if value is not None}
    positions = given.get("masked_positions", ids[:, :0])
    if positions.size and not (0 <= positions.min() and positions.max() < ids.shape[1]):
        raise ValueError(
            f"`masked_positions` must be from 0 to {ids.shape[1] - 1}, got {positions.min()} to {positions.max()}."
        )
    return {"segment_ids": np.zeros_like(ids), "padding_mask": (ids != config.pad_token_id).astype("int32"), **given}


def id_limits(config):
    """Gives, by input, the number that its values must stay below."""
    segments = config.type_vocab_size or 2  # a model without segments takes and ignores them
    return {"token_ids": config.vocab_size, "segment_ids": segments, "padding_mask": 2}


def checked_length(max_length, bundle):
    """Gives `max_length`, or for None the bundle's own, or all positions of the model; refuses anything else."""
    longest = bundle.config.max_length
    if max_length is None:
        return bundle.max_length or longest
    if type(max_length) is not int or not 3 <= max_length <= longest:
        raise ValueError(f"`max_length` must be from 3 to the model's {longest} positions, got {max_length!r}.")
    return max_length
