"""A model on packed rows: several sequences in a row, none of which sees another. layers.py has the shape letters.

S is the number of sequences that a row has room for.
"""

import keras
from keras import ops

from keras_bert import head_layers, layers
from keras_bert.encoder import config_of


@layers.register
class SameSequence(keras.layers.Layer):
    """Tells which tokens lie in one sequence: `sequence_ids` (B, T) -> (B, T, T) int32, a mask for `SelfAttention`."""

    def call(self, sequence_ids):
        same = ops.equal(ops.expand_dims(sequence_ids, 1), ops.expand_dims(sequence_ids, 2))
        return ops.cast(same, "int32")


@layers.register
class SequencePositions(keras.layers.Layer):
    """Counts the rows of the position table anew from `first` on in each sequence: (B, T) int32.

    They are counted here, not taken as an input, so that they cannot disagree with the sequences.

    Call arguments:
        sequence_ids: (B, T) int32; padding, 0, has the row before `first`, as in a row that is not packed.
        same: (B, T, T) int32 from `SameSequence`.
    """

    def __init__(self, first, **kwargs):
        super().__init__(**kwargs)
        self.first = first

    def call(self, sequence_ids, same):
        counted = ops.sum(ops.tril(same, -1), axis=-1) + self.first  # (B, T)
        return ops.where(ops.equal(sequence_ids, 0), max(self.first - 1, 0), counted)

    def get_config(self):
        return {**super().get_config(), "first": self.first}


@layers.register
class FirstTokens(keras.layers.Layer):
    """Takes the vector of each sequence's [CLS]: (B, T, D), (B, S) -> (B, S, D)."""

    def call(self, x, sequence_starts):
        vectors = head_layers.gather_tokens(x, sequence_starts)  # (BS, D)
        return ops.reshape(vectors, (*ops.shape(sequence_starts), x.shape[-1]))

    def compute_output_spec(self, x, sequence_starts):
        return keras.KerasTensor((*sequence_starts.shape, x.shape[-1]), dtype=self.compute_dtype)


# These heads make one vector of a whole row by themselves.
WHOLE_ROWS = (head_layers.SentencePooling, head_layers.FlattenChoices)


def packed_model(model):
    """Gives `model` on packed rows, as a `keras.Model` that shares all its layers.

    Training it trains `model`, which is what is evaluated and saved.

    Args:
        model: an encoder, or any head's model but `sentence_embedder` and `multiple_choice`.

    Returns:
        A `keras.Model`. It takes what `model` takes, but in place of `padding_mask`:
        `sequence_ids` (B, T) int32, 1, 2, ... at the tokens of a row's sequences and 0 at padding. Positions are
        counted anew in each sequence, for RoBERTa from the pad id + 1 on;
        `sequence_starts` (B, S) int32, where each sequence begins and 0 in unused slots, if something is read from
        [CLS]. That is then (B, S, ...) where `model` has (B, ...): pooled vectors, and logits made from them.

    Raises:
        ValueError: `model` is one of the two heads above, or not a model of this package's layers.
    """
    sequence_ids, starts = (
        keras.Input((None,), dtype="int32", name=name) for name in ("sequence_ids", "sequence_starts")
    )
    same = SameSequence(name="same_sequence")(sequence_ids)
    inputs = {
        name: keras.Input(value.shape[1:], dtype=value.dtype, name=name, optional=name == "segment_ids")
        for name, value in model.input.items()
        if name != "padding_mask"
    }
    seen = set()

    def call(layer, *args, **kwargs):
        kind = type(layer)
        seen.add(kind)
        if kind in WHOLE_ROWS:
            raise ValueError(f"`{model.name}` cannot take packed rows: it makes one vector of a row. Do not pack them.")
        if kind is layers.PaddingMask:
            return same
        if kind is layers.Embeddings:
            first = config_of(model).position_offset
            positions = SequencePositions(first, name="sequence_positions")(sequence_ids, same)
            return layer(*args[:2], positions=positions)
        if kind is layers.FirstToken:
            return FirstTokens(name=layer.name)(*args, starts)
        return layer(*args, **kwargs)

    # Keras has no public way to call a model's layers on other inputs: `clone_model` wants inputs of the same names.
    outputs = model._run_through_graph({**inputs, "padding_mask": sequence_ids}, call_fn=call)
    if layers.Embeddings not in seen:
        raise ValueError(f"`{model.name}` must be made of an encoder's layers, got {[x.name for x in model.layers]}.")
    inputs["sequence_ids"] = sequence_ids
    if layers.FirstToken in seen:
        inputs["sequence_starts"] = starts
    return keras.Model(inputs, outputs, name=model.name)
