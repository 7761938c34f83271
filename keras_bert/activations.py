"""Activations by the names of `config.json`, in `keras.ops` alone."""

import math

import keras
from keras import ops


def gelu(x):
    """Exact gelu. Written out: `keras.ops.gelu` becomes Erfc, which tf2onnx cannot convert."""
    return 0.5 * x * (1.0 + ops.erf(x / math.sqrt(2.0)))


def gelu_tanh(x):
    """The tanh form of gelu, as Google's TF1 code has it. Source: Hendrycks and Gimpel 2016, section 2."""
    return 0.5 * x * (1.0 + ops.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


ACTIVATION_FUNCTIONS = {"gelu": gelu, "gelu_new": gelu_tanh, "gelu_pytorch_tanh": gelu_tanh, "relu": ops.relu}
# registered by name, so that they can stand in a `.keras` file
for _name, _function in (("gelu", gelu), ("gelu_tanh", gelu_tanh)):
    keras.saving.register_keras_serializable("keras_bert", _name)(_function)
CLASSIFIER_FUNCTIONS = {"tanh": "tanh", "gelu": gelu, "relu": "relu"}
EMBEDDER_FUNCTIONS = {**CLASSIFIER_FUNCTIONS, "identity": None, "sigmoid": "sigmoid"}
