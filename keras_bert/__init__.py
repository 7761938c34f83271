"""BERT for Keras 3 and TensorFlow: any checkpoint or raw text in, one self-contained, proven artifact out."""

import keras_bert.optimizers  # noqa: F401 - registers what `.keras` files name
from keras_bert.added_tokens import add_tokens
from keras_bert.bundle import Bundle, create, load, save
from keras_bert.checkpoint.convert import convert
from keras_bert.config import BertConfig
from keras_bert.encoder import build_encoder
from keras_bert.features import features_from_huggingface
from keras_bert.heads import HEADS
from keras_bert.packed import packed_model
from keras_bert.prediction import predict
from keras_bert.tokenization.preprocessor import TextPreprocessor
from keras_bert.tokenization.tokenizer import Tokenizer

__version__ = "0.1.0"

__all__ = [
    "HEADS",
    "BertConfig",
    "Bundle",
    "TextPreprocessor",
    "Tokenizer",
    "add_tokens",
    "build_encoder",
    "convert",
    "create",
    "features_from_huggingface",
    "load",
    "packed_model",
    "predict",
    "save",
]
