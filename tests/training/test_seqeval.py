"""Real files of named entities: read in their schemes, learned from, and scored as seqeval scores them."""

import json
import os
import random
import subprocess
from pathlib import Path

import pytest

import keras_bert
from keras_bert.training.metrics import entity_metrics
from keras_bert.training.recipes import tag
from keras_bert.training.tagged import read_tagged
from tests.conftest import lacks, shared_data

pytestmark = pytest.mark.slow
WITNESS = "KERAS_BERT_WITNESS"


def check_against_seqeval(cases):
    """Compares `entity_metrics` with seqeval; `cases` is a dict from a name to the right and the given tags."""
    interpreter = os.environ.get(WITNESS)
    if not interpreter:
        lacks(f"{WITNESS}, the interpreter of an environment with seqeval")
    command = [interpreter, str(Path(__file__).with_name("witness_seqeval.py"))]
    done = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for name, theirs in json.loads(done.stdout).items():
        ours = entity_metrics(*cases[name])
        assert ours["accuracy"] == pytest.approx(theirs["accuracy"], abs=5e-5), name
        kinds = {kind: row for kind, row in theirs["types"].items() if not kind.endswith(" avg")}
        assert ours["types"].keys() == kinds.keys()
        assert ours["macro_f1"] == pytest.approx(theirs["types"]["macro avg"]["f1-score"], abs=5e-5)
        for key, score in (("precision", "precision"), ("recall", "recall"), ("f1", "f1-score")):
            assert ours[key] == pytest.approx(theirs["types"]["micro avg"][score], abs=5e-5), name
            for kind, row in kinds.items():
                assert ours["types"][kind][key] == pytest.approx(row[score], abs=5e-5), (name, kind)
                assert ours["types"][kind]["entities"] == row["support"]


def lines_of(path):
    """(first, last column) of each sentence, read by itself."""
    blocks = [block.splitlines() for block in Path(path).read_text(encoding="utf-8").split("\n\n")]
    rows = [[line.split() for line in block if line.strip()] for block in blocks]
    rows = [[row for row in block if row[0] != "-DOCSTART-"] for block in rows]
    return [([row[0] for row in block], [row[-1] for row in block]) for block in rows if block]


def disturbed(rows, seed):
    """Tags of which some became other ones of the file, whether the scheme allows it or not."""
    draw, every = random.Random(seed), sorted({tag for tags in rows for tag in tags})
    return [[draw.choice(every) if draw.random() < 0.1 else tag for tag in tags] for tags in rows]


FILES = {
    "conll2003/eng.testb": ("LOC", "MISC", "ORG", "PER"),
    "resume_ner/test.char.bmes": ("CONT", "EDU", "LOC", "NAME", "ORG", "PRO", "RACE", "TITLE"),
    "weibo_ner/test.conll": ("GPE.NAM", "GPE.NOM", "LOC.NAM", "LOC.NOM", "ORG.NAM", "ORG.NOM", "PER.NAM", "PER.NOM"),
    "msra_ner/test.conll": ("LOC", "ORG", "PER"),
    "wnut17/test.conll": ("corporation", "creative-work", "group", "location", "person", "product"),
}


def test_real_tags_and_the_same_disturbed_have_the_scores_of_seqeval():
    """In the files' own schemes; and what `read_tagged` makes of them has the same entities."""
    cases = {}
    for name, kinds in FILES.items():
        rows = lines_of(shared_data(name))
        right = [tags for _, tags in rows]
        cases[name] = right, disturbed(right, 0)
        cases[f"{name}, right"] = right, right
        found = read_tagged(shared_data(name))
        assert found.words == [words for words, _ in rows]
        same = entity_metrics(right, found.labels)
        assert (same["f1"], tuple(sorted(same["types"]))) == (1.0, kinds)
        read = found.labels
        cases[f"{name}, read"] = read, disturbed(read, 1)
    check_against_seqeval(cases)


EPOCHS = {"weibo_ner": 6, "resume_ner": 3}
LEAST = {"weibo_ner": 0.1, "resume_ner": 0.4}
TRAINED = {"weibo_ner": ("train.conll", "dev.conll"), "resume_ner": ("train.char.bmes", "dev.char.bmes")}


@pytest.mark.parametrize("name", TRAINED)
def test_a_small_chinese_model_learns_and_is_scored_as_seqeval_scores_it(tmp_path, name):
    """From random weights: enough for the frequent entities of resumes, and to be right and wrong."""
    train, dev = (str(shared_data(f"{name}/{file}")) for file in TRAINED[name])
    vocab = keras_bert.Tokenizer.from_vocab(shared_data("vocab/bert-base-chinese/vocab.txt"))
    sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 128}
    config = keras_bert.BertConfig(vocab_size=len(vocab.vocab), max_position_embeddings=256, **sizes)
    keras_bert.save(keras_bert.create(config, vocab), tmp_path / "start")
    settings = {"epochs": EPOCHS[name], "batch_size": 16, "learning_rate": 5e-3, "max_length": 128}
    settings = tag.Tag(str(tmp_path / "start"), train, str(tmp_path / "out"), dev=dev, **settings)
    metrics = tag.run(settings)
    assert metrics["dev"]["f1"] > LEAST[name]
    tagged = read_tagged(dev)
    given = tag.answers(keras_bert.load(tmp_path / "out"), tagged.words, 128)
    assert entity_metrics(tagged.labels, given) == metrics["dev"]
    check_against_seqeval({name: (tagged.labels, given)})
