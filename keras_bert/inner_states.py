"""What goes on inside an encoder, on request: hidden states, attention, queries, keys and values; for distillation.

L is the number of blocks; layers.py has the other shape letters.
"""

import keras
from keras import ops

from keras_bert.layers import MASKED_SCORE, EncoderBlock

PROJECTED = {"queries": "query", "keys": "key", "values": "value"}
STATES = ("hidden_states", "attentions", *PROJECTED)


def inner_states(model, names=STATES):
    """Gives a model with the inner states of `model`, as that computes them: its layers are shared, none runs twice.

    Args:
        model: an encoder, or a model with one of `HEADS` but `multiple_choice`.
        names: some of `STATES`.

    Returns:
        A `keras.Model` whose output is a dict of lists, first layer first: "hidden_states", L + 1 of (B, T, D), the
        embeddings' and each block's; "attentions", L of (B, N, T, T) float32, what every token takes of each other one;
        "queries", "keys", "values", L of (B, T, D).
    """
    found = _blocks(model)
    states = {"hidden_states": [found[0][1], *(output for _, _, _, output in found)]}
    for name, part in PROJECTED.items():
        states[name] = [Projected(block, part, name=f"{name}_{i}")(x) for i, (block, x, _, _) in enumerate(found)]
    states["attentions"] = [
        AttentionWeights(block.config.num_attention_heads, name=f"attentions_{i}")(query, key, mask)
        for i, ((block, _, mask, _), query, key) in enumerate(
            zip(found, states["queries"], states["keys"], strict=True)
        )
    ]
    return keras.Model(model.input, {name: states[name] for name in names}, name="inner_states")


def relations(a, b, heads):
    """Scaled products of every two tokens: (B, T, D), (B, T, D) -> (B, heads, T, T) float32.

    Of queries and keys, with the model's own heads, these are the scores of its attention. D may be cut into any number
    of heads that divides it. Source: Wang et al. 2020 (MiniLMv2), section 3.1.
    """
    a, b = ops.cast(a, "float32"), ops.cast(b, "float32")
    batch, length, size = ops.shape(a)[0], ops.shape(a)[1], a.shape[-1] // heads
    a = ops.transpose(ops.reshape(a, (batch, length, heads, size)), (0, 2, 1, 3))
    b = ops.transpose(ops.reshape(b, (batch, length, heads, size)), (0, 2, 3, 1))
    return ops.matmul(a * size**-0.5, b)


def masked(scores, mask):
    """Puts scores (B, heads, T, T) below all others where the mask is 0: (B, T), or (B, T, T) of packed rows."""
    while len(mask.shape) < 4:
        mask = ops.expand_dims(mask, 1)
    return scores + (1.0 - ops.cast(mask, "float32")) * MASKED_SCORE


class Projected(keras.layers.Layer):
    """Queries, keys or values of a block, from its input: (B, T, D) -> (B, T, D)."""

    def __init__(self, block, part, **kwargs):
        super().__init__(**kwargs)
        self.projection = getattr(block.attention, part)

    def call(self, x):
        batch, length, hidden = ops.shape(x)[0], ops.shape(x)[1], x.shape[-1]
        return ops.reshape(self.projection(ops.reshape(x, (-1, hidden))), (batch, length, hidden))

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, dtype=self.compute_dtype)


class AttentionWeights(keras.layers.Layer):
    """What every token takes of each other one: queries and keys (B, T, D), mask (B, T) -> (B, N, T, T) float32."""

    def __init__(self, heads, **kwargs):
        super().__init__(**kwargs)
        self.heads = heads

    def call(self, queries, keys, mask):
        return ops.softmax(masked(relations(queries, keys, self.heads), mask))

    def compute_output_spec(self, queries, keys, mask):
        length = queries.shape[1]
        return keras.KerasTensor((queries.shape[0], self.heads, length, length), dtype="float32")


def _blocks(model):
    """Each block with its input, mask and output in the graph of `model` itself, the lowest first."""
    waiting, seen, above = list(model.outputs), set(), {}
    while waiting:
        tensor = waiting.pop()
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        history = tensor._keras_history  # Keras has no public way to what went into a tensor
        made_from = history.operation._inbound_nodes[history.node_index].input_tensors
        waiting.extend(made_from)
        if isinstance(history.operation, EncoderBlock):
            above[id(made_from[0])] = (history.operation, *made_from, tensor)
    outputs = {id(output) for _, _, _, output in above.values()}
    lowest = [entry for entry in above.values() if id(entry[1]) not in outputs]
    if len(lowest) != 1:
        raise ValueError(f"`model` must have one encoder in its own graph, got {len(lowest)}: {model.name}.")
    found = lowest
    while id(found[-1][3]) in above:
        found.append(above[id(found[-1][3])])
    return found
