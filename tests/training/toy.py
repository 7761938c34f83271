"""A stand-in for the tokenizer in tests that need only ids: words at spaces, one id a word."""

import numpy as np
import tensorflow as tf

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


class WordTokenizer:
    """What pairs and masking use of a Tokenizer."""

    pad_id, unk_id, cls_id, sep_id, mask_id = range(5)
    special_ids = tuple(range(5))

    def __init__(self, words):
        self.vocab = (*SPECIAL, *words)
        self.ids = {word: index for index, word in enumerate(self.vocab)}

    def strings_to_ragged(self, texts):
        rows = [[self.ids[word] for word in text.decode().split()] for text in texts.numpy()]
        return tf.ragged.constant(rows, dtype=tf.int32)


def numbered_documents(sizes, seed=0, longest=12):
    """Documents in which every word occurs once: word "d3s2w0" is the first of sentence 2 of document 3."""
    rng = np.random.default_rng(seed)
    return [
        [" ".join(f"d{d}s{s}w{w}" for w in range(rng.integers(1, longest + 1))) for s in range(size)]
        for d, size in enumerate(sizes)
    ]


def tokenizer_for(documents):
    return WordTokenizer([word for document in documents for sentence in document for word in sentence.split()])
