"""`TextPreprocessor`: the tokenizer as a Keras layer for strings."""

import keras

from keras_bert.tokenization.tokenizer import Tokenizer


@keras.saving.register_keras_serializable("keras_bert")
class TextPreprocessor(keras.layers.Layer):
    """Turns strings (B,), or a pair of them, into model inputs. Runs on the TensorFlow backend.

    The vocabulary is part of the layer's config, so a functional model from strings to logits saves to one `.keras`
    file.

    Args:
        tokenizer: `Tokenizer`.
        max_length: most tokens of a row, special ones included.
        allowed_special: tokens that count as such when written in a text; by default none does.
    """

    def __init__(self, tokenizer, max_length=512, allowed_special=(), **kwargs):
        super().__init__(trainable=False, **kwargs)
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.allowed_special = tuple(allowed_special)
        self.supports_jit = False  # XLA has no strings

    def call(self, texts):
        texts, pairs = texts if isinstance(texts, (list, tuple)) else (texts, None)
        return self.tokenizer.strings_to_features(texts, pairs, self.max_length, self.allowed_special)

    def compute_output_spec(self, texts):
        rows = (texts[0] if isinstance(texts, (list, tuple)) else texts).shape[0]
        names = ("token_ids", "segment_ids", "padding_mask")
        return {name: keras.KerasTensor((rows, None), "int32", name=name) for name in names}

    def get_config(self):
        config = {"tokenizer": self.tokenizer.get_config(), "max_length": self.max_length}
        return super().get_config() | config | {"allowed_special": list(self.allowed_special)}

    @classmethod
    def from_config(cls, config):
        config = {key: value for key, value in config.items() if key != "trainable"}
        return cls(**config | {"tokenizer": Tokenizer(**config["tokenizer"])})
