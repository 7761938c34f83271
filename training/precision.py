"""Numbers to compute in; weights, losses and optimizers stay in float32."""

import contextlib

import keras

PRECISIONS = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


@contextlib.contextmanager
def precision(name):
    """Lets models made inside the block compute in `name`, a key of `PRECISIONS`.

    Raises:
        ValueError: there is no such precision.
    """
    if name not in PRECISIONS:
        raise ValueError(f"`precision` must be one of {', '.join(PRECISIONS)}, got {name!r}.")
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(PRECISIONS[name])
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
