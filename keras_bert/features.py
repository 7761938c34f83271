"""What other libraries' tokenizers give, as features for the models here."""

import numpy as np
from keras import ops

from keras_bert.config import did_you_mean

NAMES = {"input_ids": "token_ids", "token_type_ids": "segment_ids", "attention_mask": "padding_mask"}
# what tokenizers and datasets put beside them
LEFT_OUT = frozenset(
    "label labels length offset_mapping overflow_to_sample_mapping special_tokens_mask word_ids".split()
)


def features_from_huggingface(encoding):
    """Gives the output of a Hugging Face tokenizer the names and types of the inputs here.

    Args:
        encoding: a dict or `BatchEncoding` with `input_ids` (B, T), for choices (B, N, T), and `token_type_ids` and
            `attention_mask` of the same shape: lists, arrays, or tensors, also inside `tf.data`. Where they are left
            out they are zeros and ones, as in `transformers`. Labels, offsets and the like are left out.

    Returns:
        dict with `token_ids`, `segment_ids`, `padding_mask`, all int32.

    Raises:
        ValueError: `input_ids` is missing, a key is unknown, or the rows are not padded to one length.
    """
    if not hasattr(encoding, "items") or "input_ids" not in encoding:
        got = ", ".join(encoding) if hasattr(encoding, "items") else type(encoding).__name__
        raise ValueError(f"`input_ids` must be in the encoding, got {got}.")
    for name in encoding:
        if name not in NAMES and name not in LEFT_OUT:
            raise ValueError(f"Unknown key `{name}` in the encoding.{did_you_mean(name, NAMES)}")
    features = {NAMES[name]: _integers(name, value) for name, value in encoding.items() if name in NAMES}
    ids = features["token_ids"]
    for name, value in features.items():
        if len(value.shape) != len(ids.shape) or (isinstance(ids, np.ndarray) and value.shape != ids.shape):
            raise ValueError(f"`{name}` must have the shape of `token_ids`, {ids.shape}, got {value.shape}.")
    maker = np if isinstance(ids, np.ndarray) else ops
    return {"segment_ids": maker.zeros_like(ids), "padding_mask": maker.ones_like(ids), **features}


def _integers(name, value):
    if ops.is_tensor(value):
        return ops.cast(value, "int32")
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    if not np.issubdtype(array.dtype, np.integer) or array.ndim not in (2, 3):
        raise ValueError(
            f"`{name}` must be integers of the shape (B, T), got {_shape(array)}. "
            "Call the tokenizer on a list of texts, with padding=True."
        )
    return array.astype("int32")


def _shape(array):
    return f"{array.dtype} of the shape {array.shape}" if array.dtype != object else "rows of different lengths"
