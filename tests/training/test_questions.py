import json
import time

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.training.batches import evaluation_batches
from keras_bert.training.losses import span_cross_entropy
from keras_bert.training.questions import Questions, check_matched, nearest, read_questions
from keras_bert.training.recipes.answer import answer_rows
from tests.conftest import shared_data
from tests.models import VOCAB


@pytest.fixture(scope="module")
def tokenizer():
    return keras_bert.Tokenizer(VOCAB)


def write(path, *asked, context="the good film , the bad film"):
    qas = [{"id": str(i), "question": "film ?", **one} for i, one in enumerate(asked)]
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": context, "qas": qas}]}]}))
    return path


def answer(text, start):
    return {"text": text, "answer_start": start}


def test_answers_are_found_where_they_stand(tmp_path):
    path = write(
        tmp_path / "a.json",
        {"answers": [answer("film", 9), answer("bad", 0)]},
        {"answers": [answer("film", 20)]},
        {"answers": [], "is_impossible": True},
        {"answers": [answer("bad", 20)], "is_impossible": True},
    )
    found = read_questions(path)
    assert found.answers == [[("film", 9), ("bad", 20)], [("film", 24)], [], []]
    assert (found.moved, found.unmatched) == (2, [])
    assert nearest("a b a", "a", 3) == 4
    assert nearest("a b a", "c", 0) is None


def test_more_than_1_in_100_answers_nowhere_is_an_error(tmp_path):
    good, bad = {"answers": [answer("film", 9)]}, {"answers": [answer("flim", -1)]}
    found = read_questions(write(tmp_path / "a.json", bad, *[good] * 99))
    assert (found.answers[0], found.unmatched) == ([("flim", None)], [("0", "flim")])
    check_matched(found)
    rows, _ = answer_rows(found, keras_bert.Tokenizer(VOCAB), 20)
    assert len(rows) == 99
    message = r"^2 of 100 answers in .*a\.json are not in their context, .*: 0: `flim`; 1: `flim`\.$"
    with pytest.raises(ValueError, match=message):
        check_matched(read_questions(write(tmp_path / "a.json", bad, bad, *[good] * 98)))


def test_other_layouts_are_refused(tmp_path):
    path = tmp_path / "a.json"
    for content, name in (({"rows": []}, "data"), ({"data": [{}]}, "paragraphs"), ({"data": ["x"]}, "paragraphs")):
        path.write_text(json.dumps(content))
        message = rf"must have SQuAD's layout: .*; `{name}` is missing or of another type\.$"
        with pytest.raises(ValueError, match=message):
            read_questions(path)
    with pytest.raises(ValueError, match=r"has the question id 7 twice\.$"):
        read_questions(write(path, {"id": "7", "answers": []}, {"id": "7", "answers": []}))
    path.write_text('{"data": []}')
    with pytest.raises(ValueError, match=r"must hold at least one question, got none\.$"):
        read_questions(path)


def test_real_files():
    found = read_questions(shared_data("squad2/dev_part.json"))
    assert len(found) == 6078
    assert sum(not right for right in found.answers) == 3168
    assert found.moved == 0
    dev, trial = (read_questions(shared_data(f"cmrc2018/{name}.json")) for name in ("dev", "trial"))
    # the README counts 200 and 5 answers that do not stand at their place; most are nowhere in their context
    assert (dev.moved, len(dev.unmatched)) == (7, 193)
    assert trial.moved + len(trial.unmatched) == 5
    check_matched(trial)
    with pytest.raises(ValueError, match=r"^193 of 9657 answers in "):
        check_matched(dev)


def one(question, context, *right):
    return Questions("here", ["0"], [question], [context], [list(right)], 0, [])


def test_every_window_with_the_answer_is_labelled_with_it(tokenizer):
    words = ["the", "a", "b", "c", ","] * 20
    words[57] = "hellos"  # two pieces
    context = "  " + "  ".join(words)
    start = context.index("hellos")
    questions = one("film ?", context, (" hellos", start - 1))
    rows, targets = answer_rows(questions, tokenizer, 24, 10)
    seen, labelled = set(), 0
    for begin, end in zip(rows.splits[:-1], rows.splits[1:], strict=True):
        ids, labels = rows.token_ids[begin:end], targets.values[begin:end]
        seen.update(range(begin, end))
        assert labels.sum(axis=0).tolist() == [1, 1]
        first, last = labels.argmax(axis=0)
        if (first, last) != (0, 0):
            labelled += 1
            assert [VOCAB[i] for i in ids[first : last + 1]] == ["hello", "##s"]
        else:
            assert not {VOCAB.index("hello"), VOCAB.index("##s")} <= set(ids.tolist())
    assert labelled == 2  # windows of 19 tokens that move by 9
    assert targets.padding == -1


@pytest.mark.parametrize("stride", [0, 1, 12])
@pytest.mark.parametrize("count", [0, 1, 5000])
def test_windows_cover_the_whole_context(tokenizer, stride, count):
    """P62: a question of 60 tokens in windows of 64 is cut to half the room; every token is in a window, in no time."""
    context = " ".join(["the", "good", "film"][i % 3] for i in range(count))
    started = time.process_time()
    rows, _ = answer_rows(one("hello " * 60, context), tokenizer, 64, stride)
    assert time.process_time() - started < 5  # measured 0.6 for 5,000 words, without a wait
    room = 64 - 3 - 30
    assert len(rows) == max(1, -(-(count - stride) // (room - stride)))
    expected = tokenizer.encode(context).ids[1:-1]
    found = []
    for number, (begin, end) in enumerate(zip(rows.splits[:-1], rows.splits[1:], strict=True)):
        part = rows.token_ids[begin + 32 : end - 1].tolist()
        found += part[stride:] if number else part
    assert found == expected


@pytest.mark.parametrize("stride", [31, 128, 10**6])
def test_a_stride_without_room_is_refused(tokenizer, stride):
    with pytest.raises(ValueError, match=rf"^`stride` must be below 31 where `max_length` is 64, got {stride}\.$"):
        answer_rows(one("hello " * 60, "the film"), tokenizer, 64, stride)


def test_the_loss_does_not_depend_on_padding(tokenizer):
    short = one("film ?", "the good film", ("good", 4))
    rows, targets = answer_rows(short, tokenizer, 20)
    ((_, y),) = evaluation_batches(rows, targets, batch_size=1)
    logits = np.random.default_rng(0).normal(size=y.shape).astype("float32")
    ours = np.asarray(span_cross_entropy(y, logits))
    first, last = y.numpy()[0].argmax(axis=0)
    expected = [
        float(keras.losses.sparse_categorical_crossentropy(np.array([place]), logits[:, :, i], True)[0])
        for i, place in enumerate((first, last))
    ]
    assert ours == pytest.approx([np.mean(expected)], rel=1e-5)
    padded = np.pad(logits, [[0, 0], [0, 5], [0, 0]], constant_values=9.0)
    wide = np.pad(y.numpy(), [[0, 0], [0, 5], [0, 0]], constant_values=-1)
    assert np.asarray(span_cross_entropy(wide, padded)) == pytest.approx(ours, rel=1e-6)
