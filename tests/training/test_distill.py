import json

import numpy as np
import pytest

import keras_bert
from keras_bert.files import replace_folder
from keras_bert.training.recipes.distill import Distill, run
from tests.models import VOCAB, randomize, tiny_config
from tests.training.test_classify import BAD, GOOD, write

LABELS = ["neg", "pos"]
TEXT = "\n\n".join(f"hello {word} world . the {word} film ! a b c ." for word in ("good", "bad", "the", "a", "b", "c"))


def teacher(folder, head):
    labels = LABELS if head == "sequence_classifier" else None
    changes = {"num_hidden_layers": 4, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    bundle = keras_bert.create(tiny_config(**changes), keras_bert.Tokenizer(VOCAB), head, labels)
    randomize(bundle.model)
    keras_bert.save(bundle, folder)
    return str(folder)


@pytest.fixture
def labelled(tmp_path):
    rows = [(text, "pos") for text in GOOD] + [(text, "neg") for text in BAD]
    return {"train": write(tmp_path / "train.tsv", rows), "dev": write(tmp_path / "dev.tsv", rows)}


def test_a_classifier_teaches_on_labelled_files(labelled, tmp_path):
    folder, out = teacher(tmp_path / "teacher", "sequence_classifier"), tmp_path / "out"
    before = (tmp_path / "teacher" / "model.safetensors").read_bytes()
    settings = {"epochs": 6, "batch_size": 4, "learning_rate": 5e-3, "max_length": 8}
    metrics = run(Distill(folder, labelled["train"], str(out), dev=labelled["dev"], **settings))
    assert metrics == json.loads((out / "metrics.json").read_text())
    assert (metrics["method"], metrics["layers"]) == ("task", [2, 4])
    assert metrics["epochs"][-1]["loss"] < 0.8 * metrics["epochs"][0]["loss"]
    assert metrics["teacher"]["dev"]["examples"] == metrics["dev"]["examples"] == 7
    assert (tmp_path / "teacher" / "model.safetensors").read_bytes() == before
    student = keras_bert.load(out)
    assert (student.config.num_hidden_layers, student.labels) == (2, LABELS)
    right = [answer["label"] for answer in keras_bert.predict(student, GOOD + BAD)]
    shares = np.mean(np.array(right) == np.array(["pos"] * 4 + ["neg"] * 3))
    assert metrics["dev"]["accuracy"] == pytest.approx(shares, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "method", "losses"),
    [
        ("pretraining_model", "distilbert", {"soft_loss", "labels_loss", "cosine_loss", "labels_accuracy"}),
        ("sentence_embedder", "minilm", {"attention_relations_loss", "value_relations_loss"}),
    ],
)
def test_other_models_teach_on_text(head, method, losses, tmp_path):
    folder, text = teacher(tmp_path / "teacher", head), tmp_path / "text.txt"
    text.write_text(TEXT)
    settings = {"steps": 12, "batch_size": 2, "learning_rate": 5e-3, "max_length": 12, "layers": 3}
    metrics = run(Distill(folder, str(text), str(tmp_path / "out"), checkpoint_every=0, **settings))
    assert metrics["method"] == method
    assert losses <= metrics["after"].keys()
    assert metrics["after"]["loss"] < metrics["before"]["loss"]
    student = keras_bert.load(tmp_path / "out")
    assert student.config.num_hidden_layers == 3
    assert student.head == ("sentence_embedder" if head == "sentence_embedder" else "masked_language_model")


def test_errors(labelled, tmp_path):
    classifier, encoder = (teacher(tmp_path / str(head), head) for head in ("sequence_classifier", None))
    train, out = labelled["train"], str(tmp_path / "out")
    other = tmp_path / "other"
    bundle = keras_bert.create(tiny_config(), keras_bert.Tokenizer([*VOCAB[:-1], "##d"]))
    keras_bert.save(bundle, other)
    cases = [
        ({"layers": 5}, r"^`layers` must be at most the teacher's 4, got 5\.$"),
        ({"resume": True}, r"^`strategy` and `resume` go with a corpus; a labelled file is learnt from on one"),
        ({"teacher": encoder, "method": "task"}, r"^`method` task needs a teacher of sequence_class"),
        ({"teacher": encoder, "dev": train}, r"^`dev` and `test` go with a classifier as teacher, got None\.$"),
        ({"out": classifier}, r"^`out` must be another folder than `teacher`"),
        ({"student": str(other)}, r"other must have the tokenizer of .*, but has another\.$"),
    ]
    for changes, message in cases:
        with pytest.raises(ValueError, match=message):
            run(Distill(**{"teacher": classifier, "train": train, "out": out, **changes}))
    for changes, message in (
        ({"method": "other"}, r"^`method` must be one of , task, distilbert, tinybert, minilm, got 'other'\.$"),
        ({"temperature": 0.0}, r"^`temperature` must be positive, got 0\.0\.$"),
        ({"train": ""}, r"^`train` must be given, got ''\.$"),
        ({"resume": True, "checkpoint_every": 0}, r"^`resume` needs `checkpoint_every`, got 0\.$"),
    ):
        with pytest.raises(ValueError, match=message):
            Distill(**{"teacher": classifier, "train": train, "out": out, **changes})
    with replace_folder(tmp_path / "prepared") as folder:
        keras_bert.Tokenizer([*VOCAB[:-1], "##d"]).save(folder)
    with pytest.raises(ValueError, match=r"was prepared with another vocabulary than the model's\.$"):
        run(Distill(encoder, str(tmp_path / "prepared"), out))
