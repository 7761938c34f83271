"""The same batches through a tf.data service with two worker processes."""

import re
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.training.pairs import tokenize_documents
from keras_bert.training.pretraining_batches import pretraining_pipeline
from keras_bert.training.service import in_order
from tests.training.toy import numbered_documents, tokenizer_for

DOCUMENTS = numbered_documents((9, 30, 17, 41))
TOKENIZER = tokenizer_for(DOCUMENTS)
TOKENIZED = tokenize_documents(DOCUMENTS, TOKENIZER)
COMMAND = "import sys; sys.argv = ['keras-bert', *sys.argv[1:]]; from keras_bert_cli.main import app; app()"


@pytest.fixture
def service():
    """The address of a service that one command started: a dispatcher and two workers."""
    command = [sys.executable, "-c", COMMAND, "data-service", "--port", "0", "--workers", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        killer = threading.Timer(600, process.kill)
        killer.start()
        try:
            yield re.search(r"grpc://localhost:\d+", process.stdout.readline()).group()
        finally:
            killer.cancel()
            process.kill()  # its workers end with it


@pytest.mark.slow
def test_two_workers_give_the_same_batches(service):
    options = {"max_length": 24, "batch_size": 5, "max_predictions": 4, "seed": 1, "short_probability": 0.5}
    for packed in (1, 3):
        found = pretraining_pipeline(TOKENIZED, TOKENIZER, row_sequences=packed, **options)
        for arguments in ({"steps": 30, "start": 7}, {"steps": 12, "shard": (1, 2)}, {}):
            alone = list(found.batches(**arguments).as_numpy_iterator())
            served = list(found.batches(**arguments, service=service).as_numpy_iterator())
            assert len(served) == len(alone) > 4
            for one, other in zip(served, alone, strict=True):
                for a, b in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
                    np.testing.assert_array_equal(a, b)


def test_elements_come_in_order():
    assert list(in_order([(4, "b"), (5, "c"), (3, "a"), (6, "d")], 3)) == ["a", "b", "c", "d"]


def test_a_lost_element_is_an_error():
    with pytest.raises(RuntimeError, match=r"^The tf\.data service lost element 4: a worker went away\. Go on"):
        list(in_order([(3, "a"), (5, "c")], 3))
