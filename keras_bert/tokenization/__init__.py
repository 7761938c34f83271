"""WordPiece as array programs, `Tokenizer`; RoBERTa's and ALBERT's tokenizers on the host, `HostTokenizer`."""

from keras_bert.tokenization.encoding import Encoding
from keras_bert.tokenization.fast_text import with_tensorflow_text
from keras_bert.tokenization.host import HostTokenizer
from keras_bert.tokenization.loading import load_tokenizer
from keras_bert.tokenization.offsets import convert_offsets
from keras_bert.tokenization.preprocessor import TextPreprocessor
from keras_bert.tokenization.tokenizer import Tokenizer
from keras_bert.tokenization.vocabulary import read_vocab, write_vocab

__all__ = [
    "Encoding",
    "HostTokenizer",
    "TextPreprocessor",
    "Tokenizer",
    "convert_offsets",
    "load_tokenizer",
    "read_vocab",
    "with_tensorflow_text",
    "write_vocab",
]
