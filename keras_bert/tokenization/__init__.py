"""WordPiece: vocabulary, character tables, the array programs and `Tokenizer`."""

from keras_bert.tokenization.encoding import Encoding
from keras_bert.tokenization.preprocessor import TextPreprocessor
from keras_bert.tokenization.tokenizer import Tokenizer
from keras_bert.tokenization.vocabulary import read_vocab, write_vocab

__all__ = ["Encoding", "TextPreprocessor", "Tokenizer", "read_vocab", "write_vocab"]
