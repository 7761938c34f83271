"""Assembles the encoder: token ids in, a vector a token and a pooled vector out."""

import keras

from keras_bert import layers
from keras_bert.config import BertConfig
from keras_bert.initializers import KernelInitializer


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
        config.embedding_width,
        embeddings_initializer=KernelInitializer(stddev=config.initializer_range),
        name="token_embedding",
        trainable=config.lora is None,
    )
    embeddings = layers.Embeddings(config, name="embeddings", trainable=config.lora is None)
    blocks = [layers.EncoderBlock(config, name=name) for name in dict.fromkeys(block_names(config))]
    blocks = blocks * config.num_hidden_layers if config.shared_layers else blocks

    # model
    mask = layers.PaddingMask(config.pad_token_id, name="mask")(token_ids, padding_mask)  # (B, T)
    x = embeddings(token_embedding(token_ids), segment_ids, mask)  # (B, T, D)
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
    if any(layer.name == "encoder" for layer in model.layers):  # a head that calls the encoder as a whole
        model = model.get_layer("encoder")
    return model.get_layer("embeddings").config


def block_names(config):
    """Names of the layers that a token goes through, in order; all the same where the blocks are one."""
    return [f"layer_{0 if config.shared_layers else i}" for i in range(config.num_hidden_layers)]


def hidden_states(encoder):
    """Gives a model with every layer's output: the embeddings', then each block's; a list of (B, T, D).

    It shares the layers of `encoder`, which may also be a head's model.
    """
    mask, states = encoder.get_layer("mask").output, [encoder.get_layer("embeddings").output]
    for name in block_names(config_of(encoder)):
        states.append(encoder.get_layer(name)(states[-1], mask))
    return keras.Model(encoder.input, states, name="hidden_states")
