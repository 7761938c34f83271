"""Texts, or ids, to answers: checked, batched by length, given back in their order."""

import keras
import numpy as np

from keras_bert.heads import HEADS


def predict(bundle, texts, pairs=None, batch_size=32, max_length=None):
    """Answers texts: sorted by length, batched, padded to the longest of a batch, given back in their order.

    Args:
        texts: list of str; or a dict of id arrays (n, T) with the model's inputs (all but
            `token_ids` may be left out).
        pairs: list of str, the second texts, or None.
        max_length: tokens; longer texts are truncated. By default the bundle's own, or all that the model has positions
            for.

    Returns:
        sequence_classifier: a list of {"label", "probabilities"}; sequence_regressor, reranker: a list of float;
        sentence_embedder: an array (n, D) float32; masked_language_model: a list with, per [MASK] of the text, the
        likeliest {"word", "probability"}. Without texts an empty list.

    Raises:
        ValueError: the head has no answer for a text, or the texts are not a list of str.
    """
    head = HEADS.get(bundle.head)
    if head is None or head.answer is None:
        raise ValueError(f"`predict` needs a head with an answer, got {bundle.head}.")
    if type(batch_size) is not int or batch_size < 1:
        raise ValueError(f"`batch_size` must be a positive integer, got {batch_size!r}.")
    if bundle.head == "masked_language_model" and bundle.tokenizer is None:
        raise ValueError("`predict` needs a tokenizer to find [MASK] and to name words, but the bundle has none.")
    if isinstance(texts, dict):
        if pairs is not None:
            raise ValueError("`pairs` go with texts; with ids, `segment_ids` tell the second text.")
        texts = check_features(texts, bundle.config)
        n = len(texts["token_ids"])
        order = np.arange(n)
    else:
        check_texts(texts, pairs)
        # lists, because a table's column may have numbers of its own for its rows
        texts, pairs = list(texts), None if pairs is None else list(pairs)
        if bundle.tokenizer is None:
            reason = bundle.report.no_tokenizer if bundle.report else "the bundle was made without one."
            raise ValueError(f"`predict` needs a tokenizer for texts, but {reason}")
        max_length = checked_length(max_length, bundle)
        n = len(texts)
        order = np.argsort([len(text) + (len(pairs[i]) if pairs else 0) for i, text in enumerate(texts)], kind="stable")
    rows = {}
    for start in range(0, n, batch_size):
        chosen = order[start : start + batch_size]
        if isinstance(texts, dict):
            features = {key: value[chosen] for key, value in texts.items()}
        else:
            seconds = [pairs[i] for i in chosen] if pairs else None
            features = _features(bundle, [texts[i] for i in chosen], seconds, max_length)
        for i, row in zip(chosen, _answers(bundle, features), strict=True):
            rows[int(i)] = row
    if not rows:
        return []
    answers = {name: [rows[i][name] for i in range(n)] for name in rows[0]}
    return head.rows(answers, bundle.labels if head.labelled else bundle.tokenizer and bundle.tokenizer.vocab)


def check_texts(texts, pairs=None):
    """Refuses anything but a list of str, and pairs of another number."""
    for name, values in (("texts", texts), ("pairs", pairs)):
        if values is None and name == "pairs":
            continue
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            raise ValueError(f"`{name}` must be a list of strings, got {type(values).__name__}.")
        wrong = next((i for i, value in enumerate(values) if not isinstance(value, str)), None)
        if wrong is not None:
            raise ValueError(f"`{name}[{wrong}]` must be a string, got {type(list(values)[wrong]).__name__}.")
    if pairs is not None and len(pairs) != len(texts):
        raise ValueError(f"`texts` and `pairs` must be equally many, got {len(texts)} and {len(pairs)}.")


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


def _answers(bundle, features):
    """Gives one dict of arrays per text of a batch; per [MASK] for a masked language model."""
    mask_counts = None
    if "masked_positions" in bundle.model.input and "masked_positions" not in features:
        features, mask_counts = _with_masked_positions(features, bundle.tokenizer.mask_id)
    outputs = HEADS[bundle.head].answer(bundle.model.predict_on_batch(features))
    outputs = {name: keras.ops.convert_to_numpy(value) for name, value in outputs.items()}
    for i in range(len(features["token_ids"])):
        row = {name: value[i] for name, value in outputs.items()}
        yield row if mask_counts is None else {name: value[: mask_counts[i]] for name, value in row.items()}


def _with_masked_positions(features, mask_id):
    is_mask = features["token_ids"] == mask_id
    counts = is_mask.sum(axis=1)
    positions = np.zeros((len(counts), max(1, counts.max(initial=0))), "int32")
    for row, where in zip(positions, is_mask, strict=True):
        found = np.flatnonzero(where)
        row[: len(found)] = found
    return {**features, "masked_positions": positions}, counts


def _features(bundle, texts, pairs, max_length):
    tokenizer = bundle.tokenizer
    allowed = (tokenizer.vocab[tokenizer.mask_id],) if bundle.head == "masked_language_model" else ()
    return bundle.tokenizer(texts, pairs, max_length=max_length, allowed_special=allowed)


def checked_length(max_length, bundle):
    """Gives `max_length`, or for None the bundle's own, or all positions of the model; refuses anything else."""
    longest = bundle.config.max_length
    if max_length is None:
        return bundle.max_length or longest
    if type(max_length) is not int or not 3 <= max_length <= longest:
        raise ValueError(f"`max_length` must be from 3 to the model's {longest} positions, got {max_length!r}.")
    return max_length
