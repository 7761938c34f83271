import json

import keras
import numpy as np
import pytest

import keras_bert
from keras_bert import lora
from keras_bert.files import MARK, replace_folder
from keras_bert.training.examples import Examples
from keras_bert.training.recipes import classify
from keras_bert.training.recipes.classify import Classify, run
from tests.models import VOCAB, randomize, tiny_config

GOOD = ["good film !", "hello good world", "a good b .", "the good world"]
BAD = ["bad film !", "bad world", "a bad b ."]


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained") / "tiny"
    bundle = keras_bert.create(tiny_config(num_hidden_layers=1), keras_bert.Tokenizer(VOCAB))
    randomize(bundle.model)
    keras_bert.save(bundle, folder)
    return str(folder)


def write(path, rows, header="text\tlabel"):
    path.write_text("\n".join([header, *("\t".join(row) for row in rows)]) + "\n")
    return str(path)


@pytest.fixture
def files(tmp_path):
    rows = [(text, "pos") for text in GOOD] + [(text, "neg") for text in BAD]
    return {"train": write(tmp_path / "train.tsv", rows), "dev": write(tmp_path / "dev.tsv", rows[1::2])}


def test_learns_easy_examples_and_saves_what_it_scored(pretrained, files, tmp_path):
    out = tmp_path / "out"
    small_steps = {"epochs": 20, "batch_size": 2, "learning_rate": 1e-2, "max_length": 8}
    metrics = run(Classify(pretrained, **files, test=files["train"], out=str(out), **small_steps))
    assert metrics == json.loads((out / "metrics.json").read_text())
    assert metrics["labels"] == ["neg", "pos"]
    assert metrics["test"]["accuracy"] == 1.0
    assert metrics["test"]["classes"]["pos"] == {"examples": 4, "right": 4, "answered": 4, "f1": 1.0}
    assert metrics["config"]["epochs"] == len(metrics["epochs"]) == 20
    bert = keras_bert.load(out)
    assert (bert.head, bert.labels) == ("sequence_classifier", ["neg", "pos"])
    assert [answer["label"] for answer in keras_bert.predict(bert, GOOD + BAD)] == ["pos"] * 4 + ["neg"] * 3


@pytest.mark.slow
def test_adapters_in_place_of_the_encoder(pretrained, files, tmp_path):
    """What is written is merged, and the adapter beside it gives the same answers on the pretrained model."""
    out = tmp_path / "out"
    settings = {"epochs": 3, "batch_size": 4, "learning_rate": 1e-2, "lora_rank": 2, "layer_decay": 0.9}
    metrics = run(Classify(pretrained, **files, out=str(out), **settings))
    merged = keras_bert.load(out)
    base = keras_bert.load(pretrained, new_head="sequence_classifier", labels=metrics["labels"])
    adapted = lora.load_adapter(base, out / "adapter")
    assert len(adapted.config.lora.targets) == 6
    kept = ("token_embedding/", "embeddings/", "layer_0/attention_norm/")
    weights = {weight.path: weight for weight in merged.model.weights}
    for weight in base.model.weights:
        if weight.path.startswith(kept):
            assert np.array_equal(weight, weights[weight.path])
    features = merged.tokenizer(GOOD)
    np.testing.assert_allclose(merged.model(features), adapted.model(features), atol=1e-5)  # measured 1e-6
    assert not np.array_equal(base.model.get_layer("layer_0").output_dense.kernel, weights["layer_0/output/kernel"])
    for changes, message in (
        ({"lora_rank": -1}, r"^`lora_rank` must be at least 0, got -1\.$"),
        ({"layer_decay": 0.0}, r"^`layer_decay` must be above 0 and at most 1, got 0\.0\.$"),
    ):
        with pytest.raises(ValueError, match=message):
            Classify(pretrained, **files, out=str(out), **changes)


@pytest.mark.slow
def test_the_best_weights_are_kept(pretrained, files, tmp_path):
    """A learning rate that ruins the model: what is saved must have the dev loss of its epoch, not of the last one."""
    config = Classify(pretrained, **files, out=str(tmp_path / "out"), epochs=6, batch_size=2, learning_rate=0.1, seed=1)
    metrics = run(config)
    scores = [(epoch["dev_accuracy"], -epoch["dev_loss"]) for epoch in metrics["epochs"]]
    kept = metrics["kept_epoch"] - 1
    assert kept == max(range(6), key=lambda i: scores[i])
    assert abs(scores[kept][1] - scores[-1][1]) > 0.01
    answers = keras_bert.predict(keras_bert.load(config.out), [*GOOD, *BAD][1::2])
    right = [answer["probabilities"][label] for answer, label in zip(answers, ["pos", "pos", "neg"], strict=True)]
    assert -np.mean(np.log(right)) == pytest.approx(-scores[kept][1], abs=2e-4)
    assert metrics["dev"]["accuracy"] == pytest.approx(scores[kept][0], abs=1e-4)


@pytest.mark.slow
def test_pairs_truncation_and_the_same_run_twice(pretrained, tmp_path):
    rows = [("a b c", "hello world", "1"), ("a b c a b c a b c", "hello", "0")] * 3
    train = write(tmp_path / "train.tsv", rows, "sentence1\tsentence2\tlabel")
    runs = [
        run(Classify(pretrained, train, str(tmp_path / name), epochs=2, batch_size=4, max_length=10)) for name in "ab"
    ]
    assert runs[0]["truncated"] == 3
    assert runs[0]["epochs"] == runs[1]["epochs"]
    assert "dev" not in runs[0]
    assert runs[0]["kept_epoch"] == 2
    weights = [keras_bert.load(tmp_path / name).model.get_weights() for name in "ab"]
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_bad_input_is_refused_before_any_work(pretrained, files, tmp_path):
    out = str(tmp_path / "out")
    wrong = write(tmp_path / "wrong.tsv", [("good", "pos"), ("bad", "negg"), ("bad", "neg")])
    one = write(tmp_path / "one.tsv", [("good", "pos")])
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    for changes, message in (
        (
            {"dev": wrong},
            r"^.*wrong\.tsv line 3 has the unknown label `negg`\. Did you mean `neg`\? Known: neg, pos\.$",
        ),
        ({"train": one}, r"^.*one\.tsv must hold at least two different labels, got only `pos`\.$"),
        ({"label_column": "lable"}, r"^.*train\.tsv has no column `lable`\. Did you mean `label`\? .*$"),
        ({"max_length": 41}, r"^`max_length` must be from 3 to the model's 40 positions, got 41\.$"),
        ({"model": str(tmp_path / "gone")}, r"^.*gone is not a folder\. .*$"),
        ({"out": pretrained}, r"^`out` must be another folder than `model`, got .* for both\.$"),
        ({"out": str(other)}, r"^.*other holds notes\.txt, which was not written here; .*$"),
    ):
        with pytest.raises(ValueError, match=message):
            run(Classify(**{"model": pretrained, "out": out, **files, **changes}))
    assert sorted(path.name for path in other.iterdir()) == ["notes.txt"]
    with pytest.raises(ValueError, match=r"^`epochs` must be positive, got 0\.$"):
        Classify(pretrained, files["train"], out, epochs=0)
    with pytest.raises(ValueError, match=r"^`train` must name a file, got ''\.$"):
        Classify(pretrained, "", out)


def test_an_interrupted_run_leaves_the_old_folder(pretrained, files, tmp_path, monkeypatch):
    config = Classify(pretrained, files["train"], str(tmp_path / "out"), epochs=1)
    with replace_folder(tmp_path / "out") as folder:
        (folder / "metrics.json").write_text("{}")

    def interrupted(bundle, folder):
        raise KeyboardInterrupt

    monkeypatch.setattr(classify, "fit", lambda *arguments, **options: ([], 1))
    monkeypatch.setattr(keras_bert, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(config)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"metrics.json", MARK}
    assert (tmp_path / "out" / "metrics.json").read_text() == "{}"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.slow  # test_packed_batches.py has the loss and the gradients by themselves
@pytest.mark.parametrize("balanced", [True, False])
def test_packed_texts_have_the_losses_of_padded_ones(tmp_path, files, monkeypatch, balanced):
    """All in one batch, so that it has the same texts; without dropout."""
    config = tiny_config(num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    bundle = keras_bert.create(config, keras_bert.Tokenizer(VOCAB))
    randomize(bundle.model)
    keras_bert.save(bundle, tmp_path / "still")
    losses, shapes, fit = [], [], keras.Model.fit

    def watched(self, data, **options):
        shapes.append(next(iter(data))[0]["token_ids"].shape)
        history = fit(self, data, **options)
        losses.append(history.history["loss"])
        return history

    monkeypatch.setattr(keras.Model, "fit", watched)
    settings = {"epochs": 3, "batch_size": 8, "learning_rate": 1e-2, "max_length": 24, "balanced": balanced}
    for packed in (False, True):
        out = str(tmp_path / f"packed-{packed}")
        metrics = run(Classify(str(tmp_path / "still"), **files, out=out, packed=packed, **settings))
        assert len(metrics["epochs"]) == 3
        assert ("padding" in metrics) == packed
    assert metrics["padding"] == {"packed": round(1 - 36 / 48, 4), "unpacked": round(1 - 36 / 42, 4)}
    assert [tuple(shape) for shape in shapes] == [(7, 6), (2, 24)]
    np.testing.assert_allclose(*losses, rtol=0, atol=1e-6)  # measured 1e-7
    assert np.ptp(losses[0]) > 0.01
    answers = [keras_bert.predict(keras_bert.load(tmp_path / f"packed-{packed}"), GOOD) for packed in (False, True)]
    found = [[answer["probabilities"]["pos"] for answer in part] for part in answers]
    np.testing.assert_allclose(*found, rtol=0, atol=1e-6)


def test_what_cannot_be_packed(files):
    for changes, got in (({"stride": 4}, "`stride` 4"), ({"kind": "regression"}, "`kind` regression")):
        message = f"^`packed` goes with classes of short texts, without windows or numbers, got {got}\\.$"
        with pytest.raises(ValueError, match=message):
            Classify("m", files["train"], "o", packed=True, **changes)


@pytest.mark.slow
def test_long_texts_are_learned_and_answered_by_windows(pretrained, tmp_path):
    """What decides stands far behind `max_length`; without windows nothing could be learned."""
    fillers = ["the a b " * (5 + i % 3) + "c" for i in range(16)]
    rows = [(f"{filler} {'good' if i % 2 else 'bad'}", "pos" if i % 2 else "neg") for i, filler in enumerate(fillers)]
    train, out = write(tmp_path / "train.tsv", rows), str(tmp_path / "out")
    small_steps = {"epochs": 20, "batch_size": 8, "learning_rate": 2e-2, "max_length": 10, "stride": 2}
    config = Classify(pretrained, train, out, dev=train, **small_steps)
    metrics = run(config)
    assert metrics["dev"]["accuracy"] == 1.0
    assert metrics["truncated"] == 0
    bundle = keras_bert.load(out)
    found = keras_bert.predict(bundle, [text for text, _ in rows], max_length=10, stride=2)
    assert [answer["label"] for answer in found] == [label for _, label in rows]
    evaluation = classify.evaluate(config, bundle, train)
    assert {name: evaluation.metrics[name] for name in metrics["dev"]} == metrics["dev"]
    (long,) = keras_bert.predict(bundle, ["the a b c " * 1250 + "good"], max_length=10, stride=2)  # 5,001 words
    assert set(long["probabilities"]) == {"neg", "pos"}


def test_windows_weigh_each_text_alike_and_answer_by_their_mean(pretrained):
    bundle = keras_bert.load(pretrained, new_head="sequence_classifier", labels=["neg", "pos"])
    texts = ["good film", "the a b c " * 9, "bad"]
    config = Classify("m", "t", "o", stride=3)
    rows, numbers = classify.rows_of(config, Examples("here", texts, None, None, [1, 2, 3]), bundle.tokenizer, 12)
    assert numbers.tolist() == [0, *[1] * 5, 2]  # 36 tokens, 10 a window, 7 further each time
    outputs = classify.outputs_of(bundle, rows, numbers)
    asked = keras_bert.predict(bundle, texts, max_length=12, stride=3)
    expected = [[row["probabilities"][label] for label in ("neg", "pos")] for row in asked]
    np.testing.assert_allclose(classify.softmax(outputs), expected, atol=1e-6)
