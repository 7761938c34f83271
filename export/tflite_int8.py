"""Int8 TFLite with scales that are measured on calibration texts, and what is left in float32 there. Uses TensorFlow.

The whole graph in int8 keeps no answers: over sst2 the vectors of a genuine MiniLM have a mean cosine of 0.66 with the
model's. Int8 are the tables and the dense layers but the second one of each feed-forward part, whose input and output
hold single values a hundred times as large as the rest. Scores of attention and their mask meet in float32: a scale
for both would leave the scores one step, and so padding changes no answer.
"""

import re
import warnings

import numpy as np
import tensorflow as tf
from tensorflow.lite.python.convert import mlir_quantize

from keras_bert.export.tflite_operations import operations

QUANTIZED = ("FULLY_CONNECTED", "GATHER")
SECOND_DENSE = re.compile(r"layer_\d+(_\d+)?/output(_\d+)?/")  # of a feed-forward part; attention has its own "output"


def calibrate(converter, samples):
    """Makes a `tf.lite.TFLiteConverter` write ranges of the activations into its float32 file.

    Args:
        samples: dicts of the inputs' arrays by name; each input is padded with 0 to the largest of its sizes.
    """
    sizes = {name: np.max([sample[name].shape for sample in samples], axis=0) for name in samples[0]}

    def dataset():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TensorFlow names its own interpreter as outdated
            for sample in samples:
                yield {name: _padded(array, sizes[name]) for name, array in sample.items()}

    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = dataset
    converter._experimental_calibrate_only = True  # as TensorFlow's QuantizationDebugger does


def quantize(calibrated):
    """Gives the file with int8 arithmetic, of one with ranges; what is not in `QUANTIZED` stays float32."""
    kept = [o.output for o in operations(calibrated) if o.name not in QUANTIZED or SECOND_DENSE.search(o.output)]
    return mlir_quantize(calibrated, denylisted_nodes=kept)


def _padded(array, sizes):
    return np.pad(array, [(0, size - given) for size, given in zip(sizes, array.shape, strict=True)])
