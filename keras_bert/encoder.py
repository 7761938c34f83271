"""Assembles the encoder: token ids in, a vector a token and a pooled vector out."""

import keras

from keras_bert import layers
from keras_bert.config import BertConfig


def build_encoder(config):
    """Builds BERT's encoder with fresh weights, as a functional Keras model.

    Args:
        config: a `BertConfig`.

    Returns:
        A `keras.Model` "encoder". Inputs, a dict: `token_ids`, `segment_ids`, `padding_mask`, all (B, T) int32. The
        last two may be None: segments are then zeros, and the mask is made from `config.pad_token_id`.
        Outputs, a dict: `sequence_output` (B, T, D) and, where `config.pooler`, `pooled_output` (B, D).

    Source: Devlin et al. 2018, section 3.
    """
    # inputs
    token_ids = keras.Input((None,), dtype="int32", name="token_ids")
    segment_ids = keras.Input((None,), dtype="int32", name="segment_ids", optional=True)
    padding_mask = keras.Input((None,), dtype="int32", name="padding_mask", optional=True)

    # layers
    token_embedding = keras.layers.ReversibleEmbedding(
        config.vocab_size,
        config.hidden_size,
        embeddings_initializer=layers.KernelInitializer(stddev=config.initializer_range),
        name="token_embedding",
    )
    embeddings = layers.Embeddings(config, name="embeddings")
    blocks = [layers.EncoderBlock(config, name=f"layer_{i}") for i in range(config.num_hidden_layers)]

    # model
    mask = layers.PaddingMask(config.pad_token_id, name="mask")(token_ids, padding_mask)  # (B, T)
    x = embeddings(token_embedding(token_ids), segment_ids)  # (B, T, D)
    for block in blocks:
        x = block(x, mask)  # (B, T, D)
    outputs = {"sequence_output": x}
    if config.pooler:
        pooler = layers.dense(config.hidden_size, config, "pooler", None)
        outputs["pooled_output"] = keras.ops.tanh(pooler(layers.FirstToken(name="first_token")(x)))  # (B, D)
    inputs = {"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": padding_mask}
    return keras.Model(inputs, outputs, name="encoder")


def config_of(model) -> BertConfig:
    """Gives the config that the encoder inside `model` was built from."""
    return model.get_layer("embeddings").config


def hidden_states(encoder):
    """Gives a model with every layer's output: the embeddings', then each block's; a list of (B, T, D).

    It shares the layers of `encoder`, which may also be a head's model.
    """
    names = ["embeddings", *(f"layer_{i}" for i in range(config_of(encoder).num_hidden_layers))]
    return keras.Model(encoder.input, [encoder.get_layer(name).output for name in names], name="hidden_states")
