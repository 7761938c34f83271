"""Leaves the lower part of an encoder as it is in training."""

from keras_bert.encoder import block_names, config_of


def freeze(model, blocks=0):
    """Freezes the embeddings and the lowest `blocks` blocks of the encoder in `model`. Compile the model afterwards.

    Args:
        model: an encoder, or a model with one of `HEADS`.
        blocks: from 0 to `num_hidden_layers`; with shared layers all or none.

    Raises:
        ValueError: there are not so many blocks, or they cannot be told apart.
    """
    names = block_names(config_of(model))
    if not 0 <= blocks <= len(names):
        raise ValueError(f"`blocks` must be from 0 to {len(names)}, got {blocks}.")
    if not set(names[:blocks]).isdisjoint(names[blocks:]):
        raise ValueError(f"`blocks` must be 0 or {len(names)} where all blocks are one, got {blocks}.")
    encoder = next((layer for layer in model.layers if layer.name == "encoder"), model)
    for name in ("token_embedding", "embeddings", *names[:blocks]):
        encoder.get_layer(name).trainable = False
