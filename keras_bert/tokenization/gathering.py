"""`take` for wordpiece.py: rows at places that are never negative. Uses TensorFlow where that is the backend."""

import keras

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    take = tf.gather  # Keras's own would mend negative places: three more operations each time
else:

    def take(x, places):
        """Rows of `x` at `places`."""
        return keras.ops.take(x, places, axis=0)
