import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.tags import tag_spans
from keras_bert.training.batches import evaluation_batches
from keras_bert.training.losses import masked_cross_entropy
from keras_bert.training.recipes.tag import answers, tag_rows
from keras_bert.training.tagged import Tagged, check_labels, read_tagged, tag_names
from tests.conftest import shared_data
from tests.models import VOCAB, randomize, tiny_config

SCHEMES = {
    "IOB1": "I-PER I-PER B-PER O I-LOC O",
    "BIO": "B-PER I-PER B-PER O B-LOC O",
    "BMES": "B-PER E-PER S-PER O S-LOC O",
    "BIOES": "B-PER E-PER S-PER O S-LOC O",
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("separator", [" ", "\t"])
def test_schemes_and_columns(tmp_path, scheme, separator):
    lines = [separator.join((word, tag)) for word, tag in zip("abcdef", SCHEMES[scheme].split(), strict=True)]
    (tmp_path / "a").write_text("-DOCSTART- -X- O O\n\n" + "\n".join(lines) + "\n \n\n" + lines[-1] + "\n")
    found = read_tagged(tmp_path / "a")
    assert found.words == [list("abcdef"), ["f"]]
    assert found.labels == ["B-PER I-PER B-PER O B-LOC O".split(), ["O"]]
    assert found.lines == [3, 11]
    assert tag_names(found) == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]


def test_parts_of_speech_stay_as_they_are(tmp_path):
    (tmp_path / "a").write_text("the DET\nfilm NOUN\n")
    assert tag_names(read_tagged(tmp_path / "a")) == ["DET", "NOUN"]


def test_bad_files_give_one_sentence(tmp_path):
    path = tmp_path / "a"
    for content, message in (
        ("the O\nfilm\n", r"a line 2 must have a word and a label, got `film`\.$"),
        ("the\t\n", r"a line 1 must have a word and a label, got `the\t`\.$"),
        ("\n\n", r"a must hold at least one sentence, got none\.$"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=message):
            read_tagged(path)
    path.write_text("the O\n")
    with pytest.raises(ValueError, match=r"a must hold at least two different labels, got only `O`\.$"):
        tag_names(read_tagged(path))
    path.write_text("the O\n\nthe O\nfilm B-PRE\n")
    with pytest.raises(ValueError, match=r"a line 4 has the unknown label `B-PRE`\. Did you mean `B-PER`\?$"):
        check_labels(read_tagged(path), ["O", "B-PER", "I-PER"])
    with pytest.raises(ValueError, match=r"b is missing\.$"):
        read_tagged(tmp_path / "b")


# by hand from the files: the entities of their first lines and the counts that the data's README names
FILES = {"conll2003/eng.testa": (3250, 51362), "wnut17/dev.conll": (1009, 15733), "weibo_ner/dev.conll": (270, 14509),
         "resume_ner/dev.char.bmes": (463, 13890)}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_real_files_are_read_whole(name):
    found = read_tagged(shared_data(name))
    assert (len(found), sum(map(len, found.words))) == FILES[name]
    assert tag_names(found)[0] == "O"


@pytest.fixture(scope="module")
def bundle():
    config = tiny_config(max_position_embeddings=70)
    made = keras_bert.create(config, keras_bert.Tokenizer(VOCAB), "token_classifier", ["O", "B-X", "I-X"])
    randomize(made.model)
    return made


def one(words, labels):
    return Tagged("here", [words], [labels], [1])


def test_odd_words_have_a_label_each(bundle):
    """P59: words without a token, of several pieces, with digits, control characters, or empty."""
    words = ["\u200b", "9/7/1992", "x97", "\x97", "", "你"]
    labels = ["O", "B-X", "O", "O", "B-X", "I-X"]
    rows, targets, weights = tag_rows(one(words, labels), bundle.labels, bundle.tokenizer, 32)
    asked = targets.values[weights > 0].tolist()
    assert asked == [1, 0, 2]  # of the words with a token: 9/7/1992, x97, 你
    assert len(targets.values) == rows.splits[-1]
    (found,) = answers(bundle, [words], 32)
    assert len(found) == 6
    assert [found[i] for i in (0, 3, 4)] == ["O"] * 3  # the words without a token


def test_900_words_in_windows_of_64_are_asked_once_each_and_answered(bundle):
    """P60: full coverage, and labels at first tokens only."""
    rng = np.random.default_rng(0)
    words = rng.choice(["hellos", "worlds", "film", "good"], 900).tolist()  # two pieces and one
    labels = rng.choice(bundle.labels, 900).tolist()
    rows, targets, weights = tag_rows(one(words, labels), bundle.labels, bundle.tokenizer, 64)
    assert len(rows) > 20
    assert rows.tokens.max() <= 64
    assert int(weights.sum()) == 900
    asked = [bundle.labels[i] for i in targets.values[weights > 0]]
    assert asked == labels
    starts = {bundle.tokenizer.token_ids[token] for token in ("hello", "world", "film", "good")}
    assert {int(i) for i in rows.token_ids[weights > 0]} == starts
    (found,) = answers(bundle, [words], 64)
    assert len(found) == 900


def test_the_loss_does_not_see_continuation_pieces_and_padding(bundle):
    words, labels = [["hellos", "film"], ["worlds", "worlds", "a"]], [["B-X", "O"], ["I-X", "O", "B-X"]]
    tagged = Tagged("here", words, labels, [1, 4])
    rows, targets, weights = tag_rows(tagged, bundle.labels, bundle.tokenizer, 16)
    changed = np.where(weights > 0, targets.values, 2 - targets.values)
    assert (changed != targets.values).any()
    losses = []
    for values in (targets.values, changed):
        ((x, y, w),) = evaluation_batches(rows, type(targets)(values), batch_size=2, weights=weights)
        losses.append(float(masked_cross_entropy()(y, bundle.model(x), w)))
    assert losses[0] == losses[1]
    logits = bundle.model.predict_on_batch(x)
    expected = keras.losses.sparse_categorical_crossentropy(targets.values[weights > 0], logits[w.numpy() > 0], True)
    assert losses[0] == pytest.approx(float(np.mean(expected)), rel=1e-5)


def test_bio_of_any_scheme_has_the_same_entities():
    assert tag_spans(SCHEMES["BMES"].split()) == tag_spans(SCHEMES["BIO"].split()) == tag_spans(SCHEMES["IOB1"].split())
