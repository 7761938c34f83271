"""New words for a trained model: vocabulary, embedding, output bias and config grow together."""

import dataclasses

import numpy as np

from keras_bert.bundle import create
from keras_bert.tokenization.special import checked_special
from keras_bert.tokenization.tokenizer import Tokenizer


def add_tokens(bundle, tokens):
    """Adds words to a bundle's vocabulary. They count wherever a text has them, before any lower-casing.

    A new row of the embedding, and of the output bias, is the mean of the rows that the word was cut into before. Rows
    of the embedding behind the vocabulary are used before it grows.

    Args:
        bundle: has a `Tokenizer`.
        tokens: list of str, none of which is in the vocabulary.

    Returns:
        A new `Bundle` with weights of its own; those of the old rows are bit-identical.

    Raises:
        ValueError: a token is there already, comes twice or is no word; the bundle has no WordPiece tokenizer.
    """
    tokenizer, tokens = bundle.tokenizer, [tokens] if isinstance(tokens, str) else list(tokens)
    if not isinstance(tokenizer, Tokenizer):
        raise ValueError(f"`add_tokens` needs a bundle with a `Tokenizer`, got {type(tokenizer).__name__}.")
    for i, token in enumerate(tokens):
        if token in tokenizer.token_ids or token in tokens[:i]:
            raise ValueError(f"`tokens` must be new and each there once, got {token!r} again.")
    if bundle.config.lora is not None:
        raise ValueError("`add_tokens` needs a bundle without adapters. Use `lora.merge`, or add the words first.")
    checked_special(tokens, tokens, "tokens")
    encodings = tokenizer.encode_batch(tokens)
    pieces = [encoding.ids[1:-1] or [tokenizer.unk_id] for encoding in encodings]
    grown = {
        "vocab": [*tokenizer.vocab, *tokens],
        "added_tokens": [*tokenizer.added_tokens, *tokens],
    }
    grown = Tokenizer(**tokenizer.get_config() | grown)
    config = dataclasses.replace(bundle.config, vocab_size=max(bundle.config.vocab_size, grown.vocab_size))
    made = create(config, grown, bundle.head, bundle.labels, **bundle.options)
    old = {weight.path: np.asarray(weight.value) for weight in bundle.model.weights}
    for weight in made.model.weights:
        value = old[weight.path]
        if len(value) == bundle.config.vocab_size and weight.path.startswith(("token_embedding/", "mlm_bias/")):
            value = _grown(value, config.vocab_size, tokenizer.vocab_size, pieces)
        weight.assign(value)
    return dataclasses.replace(bundle, model=made.model, tokenizer=grown, config=config, report=None)


def _grown(rows, size, first, pieces):
    table = np.zeros((size, *rows.shape[1:]), rows.dtype)
    table[: len(rows)] = rows
    for row, ids in enumerate(pieces, first):
        table[row] = rows[ids].mean(axis=0)
    return table
