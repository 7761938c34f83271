"""Writes docs/tokenizer.md: on which Unicode classes tokenizers differ, with counts, and how the two rule sets differ.

python scripts/make_tokenizer_page.py vocab.txt      of bert-base-uncased; `tensorflow_text` and `keras_hub` installed
"""

import importlib.metadata
import sys
import unicodedata
from pathlib import Path

import numpy as np
import tensorflow as tf
from tokenizers import BertWordPieceTokenizer

from keras_bert.tokenization import Tokenizer
from keras_bert.tokenization.characters import tables_source

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tokenizer.md"
CHUNK = 40_000
CLASSES = {
    "letters": ("Lu", "Ll", "Lt", "Lm", "Lo"),
    "marks": ("Mn", "Mc", "Me"),
    "numbers": ("Nd", "Nl", "No"),
    "punctuation": ("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"),
    "symbols": ("Sm", "Sc", "Sk", "So"),
    "blanks": ("Zs", "Zl", "Zp"),
    "control (Cc)": ("Cc",),
    "format (Cf)": ("Cf",),
    "private use (Co)": ("Co",),
    "unassigned (Cn)": ("Cn",),
}
RULES = """\
| | `huggingface` (default) | `google` |
|---|---|---|
| what it is | the rules of `tokenizers`, with which checkpoints are used today | google-research/bert's code |
| longest word | 100 characters; a longer one is one `[UNK]` | 200 characters |
| private-use characters (Co) | dropped | kept; a word of their own letters, mostly `[UNK]` |
| CJK extension E | from U+2B920 | from U+2B820 |
| capital sigma at a word's end | `σ`: each character is lower-cased by itself | `ς`, as `str.lower` has it |
| order | accents, then lower case | lower case, then accents |
| U+2028, U+2029 | blanks | blanks |
| tables | {huggingface} | {google} |
"""
TEXT = """\
# The tokenizer and its peers

This page is made by `scripts/make_tokenizer_page.py`.

## Which library differs from `tokenizers`, and where

Every code point that can stand in a text ({total:,}) was put between two letters, `a?a`, and tokenized with the
vocabulary of bert-base-uncased. The table counts the code points whose ids differ from those of `tokenizers`
{reference}, by Unicode class (Unicode {unicode}).

{counts}

{versions}

## The two sets of rules

`Tokenizer(vocab, rules="google")` is for checkpoints whose own code is Google's; `save` and `from_folder` keep the
choice under `wordpiece_rules` in `tokenizer_config.json`. On {google_differs:,} of these code points the two differ.

{rules}
## Speed, and `tensorflow_text`

`tensorflow_text` is not needed: `Tokenizer` never imports it, and nothing exported holds its operations. Where it is
installed (`pip install "keras3-bert[text]"`), an input pipeline may ask for its kernel:

```python
from keras_bert.tokenization import with_tensorflow_text

fast = with_tensorflow_text(tokenizer)
dataset = dataset.map(fast.strings_to_features)  # or fast.strings_to_ragged
```

The ids are equal always. Texts of printable ASCII, the usual dashes and quotation marks and, where Chinese characters
are words, common ideographs and Chinese punctuation go to the kernel, which does to each of these characters what the
tables here do (with lower-casing `…` and full-width punctuation are left out: its normalizer decomposes them); all
other texts of a batch go through our own program. The kernel gets only the tokens that such a text can give, so that
repeated, blank and over-long tokens make no difference. A tokenizer with added tokens is refused. In
[results.md](results.md) 4 MB of English take 0.22 of the time of `tokenizers`' `encode_batch`, our own program 0.35, of
which 0.1 s is TensorFlow's start of each round; on one thread, without that start, 1,024 lines take 3.9 ms of CPU time,
`FastBertTokenizer` alone 3.1 ms. Chinese gains little: 1.07 times as fast as our own program.

## RoBERTa and ALBERT

`load_tokenizer(folder)` gives a `HostTokenizer` for them: byte-level BPE from vocab.json and merges.txt, SentencePiece
from spiece.model, or either from tokenizer.json. It runs by the library `tokenizers`, in Python, and in tf.data through
`tf.py_function`; a SavedModel cannot hold it, so exports of these families take ids. Of spiece.model, ids are those of
`sentencepiece` but where two ways to cut a text have equal scores up to rounding (3 of 1,695 lines of English with a
German model).

A spiece.model that is read without ALBERT's own rules, `read_spiece(data, lowercase=False, keep_accents=True,
replace_quotes=False)`, differs in one more class of strings: a character that the model's normalization changes (`Ｑ`
to `Q`, `ﬁ` to `fi`) with a combining mark behind it that does not compose with it. `tokenizers` drops that mark where
both have fewer than 6 bytes in UTF-8; SentencePiece keeps it. And in a cluster of 6 bytes or more SentencePiece
composes a letter with its first mark, `tokenizers` does not. 44 of 5,000 random strings hold one. ALBERT's rules drop
all marks before that: there 0 of the 5,000 differ.

What stands in the way of these two as array programs, which exports with text in would need:

- RoBERTa splits words by a regular expression over Unicode letters and numbers with look-ahead (another table of
  classes, and the rule that a blank belongs to the next word), and its merges go by rank, not by longest match: each
  round merges the best pair of a word, so that a word of n bytes needs up to n - 1 rounds that depend on each other.
- ALBERT's pieces are the best path by score: a Viterbi pass over all matches, a chain as long as the text, because
  blanks are letters and a text is one word. Its normalization replaces sequences, not characters, and scores are sums
  of floats whose order of addition decides ties.
"""


def contestants(path):
    """Functions from string tensors (B,) to RaggedTensors of ids, by name, of the libraries that are installed."""
    ours = {rules: Tokenizer.from_vocab(path, rules=rules) for rules in ("huggingface", "google")}
    found = {"this package": ours["huggingface"].strings_to_ragged}
    try:
        import tensorflow_text as text

        slow = text.BertTokenizer(str(path), lower_case=True, token_out_type=tf.int32)
        tokens = Path(path).read_text(encoding="utf-8").rstrip("\n").split("\n")
        fast = text.FastBertTokenizer(tokens, token_out_type=tf.int32, lower_case_nfd_strip_accents=True)
        found["tensorflow_text `BertTokenizer`"] = lambda texts: slow.tokenize(texts).merge_dims(-2, -1)
        found["tensorflow_text `FastBertTokenizer`"] = fast.tokenize
    except ImportError:
        pass
    try:
        import keras_hub

        found["KerasHub `BertTokenizer`"] = keras_hub.tokenizers.BertTokenizer(vocabulary=str(path), lowercase=True)
    except ImportError:
        pass
    return found | {"google": ours["google"].strings_to_ragged}


def differing(tokenize, texts, expected):
    """Whether each text gets other ids: bool (n,)."""
    tokenize = tf.function(tokenize, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    wrong = []
    for start in range(0, len(texts), CHUNK):
        rows = tokenize(tf.constant(texts[start : start + CHUNK])).to_list()
        wrong += [row != want for row, want in zip(rows, expected[start : start + CHUNK], strict=True)]
    return np.array(wrong)


def main(path):
    """Writes the page."""
    code_points = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
    texts = [f"a{chr(c)}a" for c in code_points]
    reference = BertWordPieceTokenizer(str(path), lowercase=True)
    expected = []
    for start in range(0, len(texts), CHUNK):
        encodings = reference.encode_batch(texts[start : start + CHUNK], add_special_tokens=False)
        expected += [encoding.ids for encoding in encodings]
    wrong = {name: differing(tokenize, texts, expected) for name, tokenize in contestants(path).items()}
    google = wrong.pop("google")
    categories = np.array([unicodedata.category(chr(c)) for c in code_points])
    lines = ["| class | code points | " + " | ".join(wrong) + " |", "|---|" + "---:|" * (len(wrong) + 1)]
    for name, members in {**CLASSES, "all": tuple(set(categories))}.items():
        inside = np.isin(categories, members)
        counts = " | ".join(f"{int((row & inside).sum()):,}" for row in wrong.values())
        lines.append(f"| {name} | {int(inside.sum()):,} | {counts} |")
    packages = ("tokenizers", "tensorflow", "tensorflow-text", "keras-hub")
    versions = "Versions: " + ", ".join(f"{name} {version}" for name in packages if (version := _version(name))) + "."
    rules = RULES.format(huggingface=tables_source("huggingface"), google=tables_source("google"))
    page = TEXT.format(
        total=len(texts),
        reference=_version("tokenizers"),
        unicode=unicodedata.unidata_version,
        counts="\n".join(lines),
        versions=versions,
        google_differs=int(google.sum()),
        rules=rules,
    )
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page, encoding="utf-8")


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main(sys.argv[1])
