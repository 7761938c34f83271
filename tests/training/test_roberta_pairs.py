"""RoBERTa's pairs, `<s> a </s></s> b </s>` in one segment, all the way: rows, windows, labels, answers."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import keras_bert
from keras_bert.tokenization import load_tokenizer
from keras_bert.training.batches import tokenize_examples
from keras_bert.training.examples import Examples
from keras_bert.training.questions import Questions
from keras_bert.training.recipes import classify
from keras_bert.training.recipes.answer import answer_rows
from tests.conftest import lacks
from tests.models import randomize, tiny_config

WITNESS = "KERAS_BERT_WITNESS"
VOCAB = ["<s>", "<pad>", "</s>", "<unk>", "a", "b", "c", "d", "Ġ", "Ġb", "<mask>"]
BOS, PAD, EOS, A, B, C, D, BLANK, BLANK_B = 0, 1, 2, 4, 5, 6, 7, 8, 9


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A byte-level BPE of four letters, in which a blank and b are one token."""
    made = tmp_path_factory.mktemp("roberta")
    (made / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(VOCAB)}, ensure_ascii=False))
    (made / "merges.txt").write_text("#version: 0.2\nĠ b\n", encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def tokenizer(folder):
    return load_tokenizer(folder)


def rows_as_lists(rows):
    return [rows.token_ids[a:b].tolist() for a, b in zip(rows.splits, rows.splits[1:], strict=False)]


def test_rows_of_pairs(tokenizer):
    pairs = (["a b", "c", "d"], ["c", "a b b b", ""])
    rows = tokenize_examples(*pairs, tokenizer, 8)
    assert rows_as_lists(rows) == [
        [BOS, A, BLANK_B, EOS, EOS, C, EOS],
        [BOS, C, EOS, EOS, A, BLANK_B, BLANK_B, EOS],  # its third b is cut
        [BOS, D, EOS, EOS, EOS],
    ]
    assert (rows.truncated, rows.pad_id) == (1, PAD)
    assert not rows.segment_ids.any()
    assert rows_as_lists(tokenize_examples(pairs[0], None, tokenizer, 8))[0] == [BOS, A, BLANK_B, EOS]
    config = classify.Classify("m", "t", "o", stride=1)
    windows, texts = classify.rows_of(config, Examples("here", ["c"], ["a b b b"], None, [1]), tokenizer, 7)
    assert texts.tolist() == [0, 0, 0]
    assert rows_as_lists(windows) == [
        [BOS, C, EOS, EOS, A, BLANK_B, EOS],
        *[[BOS, C, EOS, EOS, BLANK_B, BLANK_B, EOS]] * 2,
    ]


def test_answers_in_the_second_text(tokenizer):
    """The context is "b b c d": its c stands at 4, behind the question, its framing, and three tokens of its own."""
    asked = Questions(Path("here"), ["0"], ["a"], ["b b c d"], [[("c", 4)]], 0, [])
    rows, labels = answer_rows(asked, tokenizer, 12)
    assert rows_as_lists(rows) == [[BOS, A, EOS, EOS, B, BLANK_B, BLANK, C, BLANK, D, EOS]]
    assert np.argwhere(labels.values[:, 0]).tolist() == np.argwhere(labels.values[:, 1]).tolist() == [[7]]
    rows, labels = answer_rows(asked, tokenizer, 8, 1)
    assert rows_as_lists(rows) == [
        [BOS, A, EOS, EOS, B, BLANK_B, BLANK, EOS],
        [BOS, A, EOS, EOS, BLANK, C, BLANK, EOS],
        [BOS, A, EOS, EOS, BLANK, D, EOS],
    ]
    assert np.argwhere(labels.values[:, 0]).ravel().tolist() == [0, 8 + 5, 16]  # <s> where a window lacks the answer


@pytest.mark.parametrize("head", ["sequence_classifier", "span_extractor"])
def test_predict_frames_pairs_so(tokenizer, head):
    family = {"position_offset": 2, "type_vocab_size": 1, "classifier_act": "tanh", "pad_token_id": PAD}
    config = tiny_config(model_type="roberta", vocab_size=len(VOCAB), **family)
    labels = ["no", "yes"] if head == "sequence_classifier" else None
    bundle = keras_bert.create(config, tokenizer, head, labels)
    randomize(bundle.model)
    ids = np.array([[BOS, A, EOS, EOS, B, BLANK_B, BLANK, C, BLANK, D, EOS]], "int32")
    logits = np.asarray(bundle.model({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": 0 * ids + 1}))[0]
    (found,) = keras_bert.predict(bundle, ["a"], ["b b c d"])
    if labels:
        powers = np.exp(logits - logits.max())
        assert list(found["probabilities"].values()) == pytest.approx((powers / powers.sum()).tolist(), abs=1e-6)
        return
    spans = {(i, j): logits[i, 0] + logits[j, 1] for i in range(4, 10) for j in range(i, 10)}
    first, last = max(spans, key=spans.get)
    places = {4: (0, 1), 5: (1, 3), 6: (3, 4), 7: (4, 5), 8: (5, 6), 9: (6, 7)}
    assert found["score"] == pytest.approx(spans[first, last], abs=1e-5)
    assert found["null_score"] == pytest.approx(logits[0].sum(), abs=1e-5)
    if found["answer"] is not None:
        context = "b b c d"
        assert found["answer"] == context[places[first][0] : places[last][1]].strip()


ASK = """
import json, sys, transformers
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
texts, pairs = json.load(sys.stdin)
cut = tokenizer(texts, pairs, truncation="longest_first", max_length=9)["input_ids"]
options = {"truncation": "only_second", "max_length": 12, "stride": 2, "return_overflowing_tokens": True}
windows = tokenizer(texts, pairs, **options)
print(json.dumps([tokenizer(texts, pairs)["input_ids"], cut, windows["input_ids"]]))
"""


@pytest.mark.slow
def test_transformers_frames_and_cuts_alike(tokenizer, tmp_path):
    interpreter = os.environ.get(WITNESS)
    if not interpreter:
        lacks(f"{WITNESS}, the interpreter of an environment with transformers")
    tokenizer.save(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "roberta"}))
    rng = np.random.default_rng(0)
    letters = [*"abcd", " b"]
    texts = ["".join(rng.choice(letters, size)) for size in rng.integers(1, 4, 40)]
    pairs = ["".join(rng.choice(letters, size)) for size in rng.integers(0, 14, 40)]
    environment = {"HF_HUB_OFFLINE": "1", "PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    asked = {"input": json.dumps([texts, pairs]), "capture_output": True, "text": True, "env": environment}
    done = subprocess.run([interpreter, "-c", ASK, str(tmp_path)], check=False, **asked)
    assert done.returncode == 0, done.stderr[-2000:]
    whole, cut, windows = json.loads(done.stdout)
    assert rows_as_lists(tokenize_examples(texts, pairs, tokenizer, 99)) == whole
    assert rows_as_lists(tokenize_examples(texts, pairs, tokenizer, 9)) == cut
    found = [tokenizer.windows(text, pair, 12, 2) for text, pair in zip(texts, pairs, strict=True)]
    assert [window.ids for part in found for window in part] == windows
    assert len(windows) > len(texts)
