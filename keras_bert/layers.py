"""The layers of BERT, in `keras.ops` alone.

Shapes: B batch, T tokens, D hidden_size, E embedding_size or D, F intermediate_size, N heads, K = D / N, V vocab_size,
P masked positions, C classes. What only some heads need is in head_layers.py.
"""

import keras
from keras import ops

from keras_bert.activations import ACTIVATION_FUNCTIONS
from keras_bert.config import BertConfig
from keras_bert.dropout import Dropout
from keras_bert.initializers import KernelInitializer
from keras_bert.projections import dense, maker_of, projection, stay_frozen

register = keras.saving.register_keras_serializable("keras_bert")

# What is added to the scores of padding. Far below any score, so that exp gives 0, and far above float32's minimum, so
# that a score added to it stays finite: a row that is all padding attends evenly and gives no NaN.
MASKED_SCORE = -1e9


def as_config(config):
    """Takes a `BertConfig`, or the dict of one, as it comes from a `.keras` file."""
    return config if isinstance(config, BertConfig) else BertConfig.from_dict(config, source="the layer's config")


@register
class LayerNorm(keras.layers.Layer):
    """Layer normalization over the last axis, (..., D) -> (..., D), computed in float32.

    Centre, then divide by the root: the form that ONNX Runtime fuses and that keeps its digits where the mean is large.
    """

    def __init__(self, eps, **kwargs):
        super().__init__(**kwargs)
        self.eps = eps

    def build(self, input_shape):
        size = input_shape[-1:]
        self.gamma = self.add_weight(shape=size, initializer="ones", name="gamma", trainable=self.trainable)
        self.beta = self.add_weight(shape=size, initializer="zeros", name="beta", trainable=self.trainable)

    def call(self, x):
        x = ops.cast(x, "float32")
        centred = x - ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
        y = centred / ops.sqrt(variance + self.eps)
        y = y * ops.cast(self.gamma, "float32") + ops.cast(self.beta, "float32")
        return ops.cast(y, self.compute_dtype)

    def get_config(self):
        return {**super().get_config(), "eps": self.eps}


@register
class PaddingMask(keras.layers.Layer):
    """Gives (B, T) int32, 1 at real tokens: `padding_mask` itself, or where the ids are not the pad id."""

    def __init__(self, pad_token_id, **kwargs):
        super().__init__(**kwargs)
        self.pad_token_id = pad_token_id

    def call(self, token_ids, padding_mask=None):
        if padding_mask is None:
            padding_mask = ops.not_equal(token_ids, self.pad_token_id)
        return ops.cast(padding_mask, "int32")

    def get_config(self):
        return {**super().get_config(), "pad_token_id": self.pad_token_id}


@register
class Embeddings(keras.layers.Layer):
    """Adds positions and segments to token vectors, then layer norm and dropout: (B, T, E) -> (B, T, D).

    E is `embedding_size`, with a dense layer from E to D at the end, or D.

    Call arguments:
        tokens: (B, T, E), the rows of the token embedding.
        segment_ids: (B, T) int32, or None for zeros.
        mask: (B, T) int32, 1 at real tokens; where positions have an offset they are counted by it.
        positions: (B, T) int32, rows of the position table, or None to count from the row's first token.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config = as_config(config)
        self.norm = LayerNorm(config.layer_norm_eps, name="norm", dtype=self.dtype_policy)
        self.dropout = Dropout(config.hidden_dropout_prob, name="dropout", dtype=self.dtype_policy)
        self.projection = None
        if config.embedding_size is not None:
            self.projection = dense(config.hidden_size, config, "projection", self.dtype_policy)

    def build(self, *input_shapes):
        config, start = self.config, self.config.initializer_range
        self.position_embeddings = self.add_weight(
            shape=(config.max_position_embeddings, config.embedding_width),
            initializer=KernelInitializer(stddev=start),
            name="position_embeddings",
        )
        if config.type_vocab_size:
            self.segment_embeddings = self.add_weight(
                shape=(config.type_vocab_size, config.embedding_width),
                initializer=KernelInitializer(stddev=start),
                name="segment_embeddings",
            )
        self.norm.build((None, None, config.embedding_width))
        if self.projection is not None:
            self.projection.build((None, config.embedding_width))

    def call(self, tokens, segment_ids=None, mask=None, positions=None, training=None):
        self._check_length(tokens.shape[1])
        x = tokens + self._positions(ops.shape(tokens)[1], mask, positions)  # (B, T, E)
        if self.config.type_vocab_size:
            segments = ops.convert_to_tensor(self.segment_embeddings)
            x = x + (segments[0] if segment_ids is None else ops.take(segments, segment_ids, axis=0))
        x = self.dropout(self.norm(x), training=training)
        if self.projection is None:
            return x
        batch, length, width = ops.shape(x)[0], ops.shape(x)[1], self.config.embedding_width
        return ops.reshape(self.projection(ops.reshape(x, (-1, width))), (batch, length, self.config.hidden_size))

    def _positions(self, length, mask, positions):
        """Rows of the position embedding: (T, E), or (B, T, E) where they are given or counted from the offset on."""
        table = ops.convert_to_tensor(self.position_embeddings)
        if positions is not None:
            return ops.take(table, positions, axis=0)
        if not self.config.position_offset:
            return table[:length]
        mask = ops.cast(mask, "int32")
        counted = ops.cumsum(mask, axis=1) * mask + self.config.position_offset - 1  # padding has the row before it
        return ops.take(table, counted, axis=0)

    def _check_length(self, length):
        longest = self.config.max_length
        if length is not None and length > longest:
            raise ValueError(f"The input has {length} tokens, the model has {longest} positions. Truncate the texts.")

    def compute_output_spec(self, tokens, segment_ids=None, mask=None, positions=None, training=None):
        self._check_length(tokens.shape[1])
        stay_frozen(self, maker_of(tokens))  # the token embedding is Keras's: it cannot do so itself
        return keras.KerasTensor((*tokens.shape[:2], self.config.hidden_size), dtype=self.compute_dtype)

    def get_config(self):
        return {**super().get_config(), "config": self.config.to_dict()}


@register
class SelfAttention(keras.layers.Layer):
    """Attention of every token to every real token, in N heads: (B, T, D), mask (B, T) -> (B, T, D).

    A mask (B, T, T) says for every token which ones it attends to.

    Source: Vaswani et al. 2017, section 3.2. Differs: the query is scaled, not the scores; softmax is in float32.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config = as_config(config)
        for name in ("query", "key", "value"):
            setattr(self, name, projection(config.hidden_size, config, name, self.dtype_policy))
        self.output_dense = projection(config.hidden_size, config, "output", self.dtype_policy, "attention_output")
        self.dropout = Dropout(config.attention_probs_dropout_prob, name="dropout", dtype=self.dtype_policy)

    def build(self, input_shape):
        for layer in (self.query, self.key, self.value, self.output_dense):
            layer.build((None, self.config.hidden_size))

    def call(self, x, mask, training=None):
        batch, length, hidden = ops.shape(x)[0], ops.shape(x)[1], self.config.hidden_size
        heads = self.config.num_attention_heads
        tokens = ops.reshape(x, (-1, hidden))  # (BT, D): each dense is then one matrix product

        def split(y):
            return ops.reshape(y, (batch, length, heads, hidden // heads))  # (B, T, N, K)

        query = split(self.query(tokens) * (hidden // heads) ** -0.5)
        query = ops.transpose(query, (0, 2, 1, 3))  # (B, N, T, K)
        key = ops.transpose(split(self.key(tokens)), (0, 2, 3, 1))  # (B, N, K, T)
        value = ops.transpose(split(self.value(tokens)), (0, 2, 1, 3))  # (B, N, T, K)
        while len(mask.shape) < 4:
            mask = ops.expand_dims(mask, 1)  # (B, 1, 1, T) or (B, 1, T, T)
        barred = 1.0 - ops.cast(mask, "float32")
        scores = ops.cast(ops.matmul(query, key), "float32") + barred * MASKED_SCORE  # (B, N, T, T)
        weights = ops.cast(ops.softmax(scores, axis=-1), self.compute_dtype)
        context = ops.matmul(self.dropout(weights, training=training), value)  # (B, N, T, K)
        context = ops.reshape(ops.transpose(context, (0, 2, 1, 3)), (-1, hidden))  # (BT, D)
        return ops.reshape(self.output_dense(context), (batch, length, hidden))

    def compute_output_spec(self, x, mask, training=None):
        return keras.KerasTensor(x.shape, dtype=self.compute_dtype)

    def get_config(self):
        return {**super().get_config(), "config": self.config.to_dict()}


@register
class EncoderBlock(keras.layers.Layer):
    """Self-attention, then feed-forward; each is followed by dropout, add and layer norm.

    (B, T, D), mask (B, T) int32 -> (B, T, D). The mask stays an integer: Keras would cast a float one to half
    precision, where `MASKED_SCORE` is infinite.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config = as_config(config)
        policy, eps, learns = self.dtype_policy, config.layer_norm_eps, config.lora is None
        self.attention = SelfAttention(config, name="attention", dtype=policy)
        self.attention_norm = LayerNorm(eps, name="attention_norm", dtype=policy, trainable=learns)
        self.intermediate = projection(config.intermediate_size, config, "intermediate", policy)
        self.output_dense = projection(config.hidden_size, config, "output", policy)
        self.output_norm = LayerNorm(eps, name="output_norm", dtype=policy, trainable=learns)
        self.dropout = Dropout(config.hidden_dropout_prob, name="dropout", dtype=policy)

    def build(self, input_shape):
        hidden, inner = self.config.hidden_size, self.config.intermediate_size
        self.attention.build((None, None, hidden))
        self.intermediate.build((None, hidden))
        self.output_dense.build((None, inner))
        for norm in (self.attention_norm, self.output_norm):
            norm.build((None, None, hidden))

    def call(self, x, mask, training=None):
        activation = ACTIVATION_FUNCTIONS[self.config.hidden_act]
        y = self.attention(x, mask, training=training)  # (B, T, D)
        x = self.attention_norm(x + self.dropout(y, training=training))
        y = activation(self.intermediate(ops.reshape(x, (-1, self.config.hidden_size))))  # (BT, F)
        y = ops.reshape(self.output_dense(y), ops.shape(x))  # (B, T, D)
        return self.output_norm(x + self.dropout(y, training=training))

    def compute_output_spec(self, x, mask, training=None):
        stay_frozen(self)
        return keras.KerasTensor(x.shape, dtype=self.compute_dtype)

    def get_config(self):
        return {**super().get_config(), "config": self.config.to_dict()}


@register
class FirstToken(keras.layers.Layer):
    """Takes the vector of [CLS]: (B, T, D) -> (B, D)."""

    def call(self, x):
        return x[:, 0]
