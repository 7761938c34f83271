import subprocess
import sys

import pytest

from keras_bert.training import vocabulary
from keras_bert.training.vocabulary import SPECIAL_TOKENS, train_vocab

TEXTS = ["The lowest price is the newest price.", "Élan and lower prices, low and new!", "我们在北京。"] * 20


def test_special_tokens_come_first_and_every_character_is_known():
    vocab = train_vocab(TEXTS, 120)
    assert vocab[:5] == SPECIAL_TOKENS
    assert len(vocab) == len(set(vocab)) <= 120
    assert {"the", "price", "elan", "我", "。", "!"} <= set(vocab)
    assert not [token for token in vocab[5:] if token != token.lower()]


def test_cased():
    vocab = train_vocab(TEXTS, 200, lowercase=False)
    assert {"The", "Élan"} <= set(vocab)


def test_size_is_kept_where_the_corpus_allows():
    assert len(train_vocab(TEXTS, 60)) == 60


def test_equal_in_every_process():
    # the file alone, without the package: importing TensorFlow three times takes long
    code = f"import runpy; train = runpy.run_path({vocabulary.__file__!r})['train_vocab']; "
    code += f"print(ascii(train({TEXTS!a}, 90)))"
    runs = {subprocess.run([sys.executable, "-c", code], capture_output=True).stdout for _ in range(3)}
    assert runs == {ascii(train_vocab(TEXTS, 90)).encode() + b"\n"}


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"^`size` must be over 5, the number of special tokens, got 5\.$"):
        train_vocab(TEXTS, 5)
    with pytest.raises(
        ValueError, match=r"^The texts must hold at least one word to train a vocabulary on, got none\.$"
    ):
        train_vocab(["", " "], 50)
