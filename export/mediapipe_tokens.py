"""MediaPipe's own BertTokenizer in Python, to tell which texts it will split into other tokens than ours.

It lowers the letters A to Z alone, drops and decomposes nothing, splits at five ASCII blanks, takes a word of more
than 100 bytes for [UNK], and ends a text at its first NUL. Source: mediapipe's bert_tokenizer.h and
bert_preprocessor_calculator.cc; the test asks mediapipe itself.
"""

import functools
import string

import numpy as np

from keras_bert.tokenization.characters import ISOLATED, characters

BLANKS = "\t\n\f\r "
LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
MAX_BYTES = 100
EXAMPLES = 5


def differing(tokenizer, texts, max_length):
    """Counts the texts that become other tokens under MediaPipe.

    Args:
        tokenizer: an uncased `Tokenizer`.
        texts: list of str.
        max_length: T, tokens of every text.

    Returns:
        dict: "texts" and "differ", counts; "examples", the first five: "text", "ours" and "mediapipe", their tokens.
    """
    examples, count = [], 0
    for text in texts:
        ids = np.asarray(tokenizer([text], max_length=max_length)["token_ids"])[0]
        ours = [tokenizer.vocab[i] for i in ids if i != tokenizer.pad_id][1:-1]
        theirs = mediapipe_tokens(tokenizer, text)[: max_length - 2]
        if ours != theirs:
            count += 1
            if len(examples) < EXAMPLES:
                examples.append({"text": text, "ours": ours, "mediapipe": theirs})
    return {"texts": len(texts), "differ": count, "examples": examples}


def mediapipe_tokens(tokenizer, text):
    """The tokens between [CLS] and [SEP], before they are cut to T."""
    return [piece for word in _words(text) for piece in _pieces(word, tokenizer.token_ids)]


def _words(text):
    words = [""]
    for letter in text.partition("\0")[0].translate(LOWER):
        if letter in BLANKS:
            words.append("")
        elif _isolated()[ord(letter)]:  # punctuation and CJK ideographs
            words += [letter, ""]
        else:
            words[-1] += letter
    return [word for word in words if word]


def _pieces(word, known):
    """The longest tokens from left to right, or [UNK] for the whole word."""
    if len(word.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return ["[UNK]"]
    pieces, start = [], 0
    while start < len(word):
        prefix = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if prefix + word[start:end] in known), None)
        if end is None:
            return ["[UNK]"]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces


@functools.cache
def _isolated():
    """Which code points are words by themselves: bool (1114112,)."""
    _, kinds, _ = characters(lowercase=False, strip_accents=False, tokenize_chinese_chars=True, rules="google")
    return kinds == ISOLATED
