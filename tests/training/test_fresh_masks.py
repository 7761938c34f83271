import warnings

import pytest

from keras_bert.training.fresh_masks import fresh_masks
from keras_bert.training.pairs import tokenize_documents
from keras_bert.training.pretraining_batches import pretraining_batches
from tests.training.toy import numbered_documents, tokenizer_for

DOCUMENTS = numbered_documents((9, 30))
TOKENIZER = tokenizer_for(DOCUMENTS)
OPTIONS = {"max_length": 24, "batch_size": 5, "max_predictions": 4, "seed": 1, "steps": 3}


@pytest.mark.parametrize("packed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_cache_after_masking_warns(packed):  # P56
    documents = tokenize_documents(DOCUMENTS, TOKENIZER)
    data = pretraining_batches(documents, TOKENIZER, row_sequences=packed, **OPTIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fresh_masks(data) is data
        fresh_masks(data.prefetch(2).take(2))
    for cached in (data.cache(), data.cache().repeat(2).prefetch(1)):
        with pytest.warns(UserWarning, match=r"^The masks are cached: every epoch sees the same ones\. Leave out"):
            assert fresh_masks(cached) is cached
