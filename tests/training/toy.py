"""Documents whose words are one token each, and the tokenizer for them."""

import numpy as np

from keras_bert.tokenization.tokenizer import Tokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def numbered_documents(sizes, seed=0, longest=12):
    """Documents in which every word occurs once: word "d3s2w0" is the first of sentence 2 of document 3."""
    rng = np.random.default_rng(seed)
    return [
        [" ".join(f"d{d}s{s}w{w}" for w in range(rng.integers(1, longest + 1))) for s in range(size)]
        for d, size in enumerate(sizes)
    ]


def tokenizer_for(documents):
    return Tokenizer([*SPECIAL, *(word for document in documents for text in document for word in text.split())])
