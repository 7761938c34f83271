"""Recipe: a pretrained model and a file of tagged words in, a tagger of words out."""

import dataclasses
import time

import keras
import numpy as np

import keras_bert
from keras_bert.asking import window_stride, words_of
from keras_bert.tags import tag_spans
from keras_bert.tokenization.windows import last_text, own_tokens, text_windows
from keras_bert.training.batches import TEXTS_AT_ONCE, TokenLabels, rows_of_encodings, steps_per_epoch, training_batches
from keras_bert.training.fine_tuning import check_settings, finish, fit, load_for, read_splits, row_length
from keras_bert.training.losses import masked_cross_entropy
from keras_bert.training.metrics import entity_metrics
from keras_bert.training.report import Evaluation
from keras_bert.training.tagged import check_labels, read_tagged, tag_names

USUAL_LENGTH = 128


@dataclasses.dataclass(frozen=True)
class Tag:
    """What to fine-tune on and how; fields that are not named here are those of `fine_tuning`.

    Args:
        train, dev, test: words in columns, as `read_tagged` reads them; the labels of `train` are the classes.
        max_length: the most tokens of a window; longer sentences have several, and all their words are learned from
            and answered.
    """

    model: str
    train: str
    out: str
    dev: str = ""
    test: str = ""
    max_length: int = 0
    batch_size: int = 32
    epochs: int = 3
    learning_rate: float = 5e-5
    lora_rank: int = 0
    patience: int = 0
    seed: int = 0

    def __post_init__(self):
        check_settings(self)


def run(config):
    """Trains, keeps the best weights, scores them, and writes the model and its metrics.

    Returns:
        dict, as in `metrics.json`: "labels"; "dev" and "test", `entity_metrics` of the kept weights; "epochs", the logs
        of each; "kept_epoch", counted from 1; "windows", how many rows the training sentences became; "seconds".
    """
    started = time.monotonic()
    files = read_splits(config, read_tagged)
    labels = tag_names(files["train"])
    for tagged in files.values():
        check_labels(tagged, labels)
    bundle, length = load_for(config, "token_classifier", USUAL_LENGTH, labels)
    rows, targets, weights = tag_rows(files["train"], labels, bundle.tokenizer, length)
    data = training_batches(
        rows, targets, weights=weights, batch_size=config.batch_size, seed=config.seed, epochs=config.epochs
    )

    def score(name):
        return entity_metrics(files[name].labels, answers(bundle, files[name].words, length))

    epochs, kept = fit(
        config,
        bundle.model,
        data,
        steps_per_epoch(rows, config.batch_size),
        title="tag",
        loss=masked_cross_entropy(),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        score=(lambda: score("dev")) if "dev" in files else None,
        best="f1" if "O" in labels else "accuracy",
    )
    found = {name: score(name) for name in files if name != "train"}
    more = {"epochs": epochs, "kept_epoch": kept, "windows": len(rows)}
    return finish(config, bundle, started, {"labels": labels, **found, **more})


def tag_rows(tagged, labels, tokenizer, max_length, stride=None):
    """Cuts tagged sentences into windows of tokens.

    A word's label is asked of its first token, in that window where it is not at an edge: each word counts once, other
    tokens not at all. Words without a token, such as one of control characters, are never asked.

    Args:
        tagged: `Tagged`.
        labels: the classes.
        stride: tokens that windows have in common; None for 128, or a quarter of a short `max_length`.

    Returns:
        `Rows`, `TokenLabels` (P,) int32, and weights (P,) float32, 1 where a label counts.
    """
    places = {label: i for i, label in enumerate(labels)}
    stride = window_stride(stride, max_length, False)
    windows, values, weights = [], [], []
    for start in range(0, len(tagged), TEXTS_AT_ONCE):
        chosen = slice(start, start + TEXTS_AT_ONCE)
        encodings = tokenizer.encode_batch([" ".join(words) for words in tagged.words[chosen]])
        for words, tags, encoding in zip(tagged.words[chosen], tagged.labels[chosen], encodings, strict=True):
            numbers, _ = words_of(encoding, words)
            asked = [-1]  # beside the tokens: the class of a word's first one, else -1
            for before, word in zip([None, *numbers], numbers, strict=False):
                asked.append(-1 if word == before else places[tags[word]])
            cut = text_windows(dataclasses.replace(encoding, tokens=[*asked, -1]), max_length, stride)
            for number, window in enumerate(cut):
                begin, size = last_text(window), len(window.ids)
                own = slice(*(begin + place for place in own_tokens(number, len(cut), size - 1 - begin, stride)))
                found = np.full(size, -1, "int32")
                found[own] = window.tokens[own]
                windows.append(window)
                values.append(found)
    values = np.concatenate(values)
    weights = (values >= 0).astype("float32")
    return rows_of_encodings(windows, tokenizer.pad_id), TokenLabels(np.maximum(values, 0)), weights


def answers(bundle, words, max_length):
    """The label of every word: lists of str."""
    found = keras_bert.predict(bundle, words, batch_size=64, max_length=max_length)
    return [row["labels"] for row in found]


def evaluate(config, bundle, path):
    """Scores a model on a file of tagged words: an `Evaluation`, whose errors are entities missed and invented."""
    tagged = read_tagged(path)
    check_labels(tagged, bundle.labels)
    length = row_length(config, bundle, USUAL_LENGTH)
    found = answers(bundle, tagged.words, length)
    metrics = entity_metrics(tagged.labels, found)
    errors = []
    for line, words, right, given in zip(tagged.lines, tagged.words, tagged.labels, found, strict=True):
        true, said = (entities_or_labels(tags, "f1" in metrics) for tags in (right, given))
        if true == said:
            continue
        shown = [
            "; ".join(f"{kind}: {' '.join(words[start:end])}" for start, end, kind in sorted(spans))
            for spans in (true - said, said - true)
        ]
        errors.append({"line": line, "text": " ".join(words), "missed": shown[0], "invented": shown[1]})
    return Evaluation(metrics, errors)


def entities_or_labels(tags, entities):
    """The set of (start, end, type) of entities, or of single labels."""
    return set(tag_spans(tags)) if entities else {(i, i + 1, tag) for i, tag in enumerate(tags)}
