"""Texts that are long in an unkind way: quick, small, and as `tokenizers` has them."""

import time
import tracemalloc

import pytest
import tensorflow as tf

from tests.tokenization import made

EXTREMES = {
    "one word": ("a" * 1_000_000, ["[UNK]"]),
    "marks": ("a" + "\u0301" * 10_000, ["a"]),
    "spaces": (" " * 1_000_000, []),
    "marks out of order": ("a" + "\u0301\u0323" * 5_000, ["a"]),
}


@pytest.fixture(scope="module")
def tokenizer():
    return made.published("bert-base-uncased")


def graph(tokenizer):
    return tf.function(tokenizer.strings_to_ragged, input_signature=[tf.TensorSpec([None], tf.string)])


@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_texts(tokenizer, name):
    text, want = EXTREMES[name]
    assert tokenizer.encode(text).tokens[1:-1] == want
    tracemalloc.start()
    tokenizer.encode(text)
    assert tracemalloc.get_traced_memory()[1] < 300e6
    tracemalloc.stop()
    assert graph(tokenizer)(tf.constant([text])).to_list() == [[tokenizer.token_ids[token] for token in want]]


@pytest.mark.slow  # seconds are for a machine that does nothing else
@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_texts_are_quick(tokenizer, name):
    text, _ = EXTREMES[name]
    function, batch = graph(tokenizer), tf.constant([text])
    for run in (lambda: tokenizer.encode(text), lambda: function(batch)):
        run()  # traces
        times = []
        for _ in range(5):
            start = time.process_time()
            run()
            times.append(time.process_time() - start)
        assert min(times) < 0.2, times  # measured, on a busy machine: 0.095, 0.003, 0.127, 0.003
