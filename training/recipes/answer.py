"""Recipe: a pretrained model and questions with answers in, an extractor of answers out."""

import dataclasses
import time

import numpy as np

import keras_bert
from keras_bert.asking import first_text_room, window_stride
from keras_bert.tokenization.windows import last_text, text_windows
from keras_bert.training.batches import TokenLabels, rows_of_encodings, steps_per_epoch, training_batches
from keras_bert.training.fine_tuning import check_settings, finish, fit, load_for, read_splits, row_length
from keras_bert.training.losses import span_cross_entropy
from keras_bert.training.metrics import cmrc_scores, squad_scores
from keras_bert.training.metrics.answers import HAN
from keras_bert.training.questions import check_matched, read_questions
from keras_bert.training.report import Evaluation

USUAL_LENGTH = 384
QUESTIONS_AT_ONCE = 64
ALWAYS = 1e30  # a threshold of the null score that no score reaches


@dataclasses.dataclass(frozen=True)
class Answer:
    """What to fine-tune on and how; fields that are not named here are those of `fine_tuning`.

    Args:
        train, dev, test: JSON files, as `read_questions` reads them.
        max_length: the most tokens of a window, question included; of 0, 384. Questions over half of it are cut.
        stride: tokens that the windows of a long context share; 0 for 128, or a quarter of a short `max_length`.
        max_answer_tokens: the longest answer.
        metric: "squad" or "cmrc"; "" for cmrc where most right answers are Chinese.
    """

    model: str
    train: str
    out: str
    dev: str = ""
    test: str = ""
    stride: int = 0
    max_answer_tokens: int = 30
    metric: str = ""
    max_length: int = 0
    batch_size: int = 16
    epochs: int = 2
    learning_rate: float = 3e-5
    lora_rank: int = 0
    patience: int = 0
    seed: int = 0

    def __post_init__(self):
        check_settings(self)
        if self.metric not in ("", "squad", "cmrc"):
            raise ValueError(f"`metric` must be squad, cmrc or empty, got {self.metric!r}.")
        if self.stride < 0 or self.max_answer_tokens < 1:
            raise ValueError(
                "`stride` must be at least 0 and `max_answer_tokens` at least 1, got "
                f"{self.stride} and {self.max_answer_tokens}."
            )


def run(config):
    """Trains, keeps the best weights, scores them, and writes the model and its metrics.

    Returns:
        dict, as in `metrics.json`: "dev" and "test", the scores of the kept weights, as `scores_of` gives them;
        "epochs", the logs of each; "kept_epoch", counted from 1; "windows", how many rows the training questions
        became; "moved" and "unmatched", what `read_questions` did to each file's answers; "seconds".
    """
    started = time.monotonic()
    files = read_splits(config, read_questions)
    check_matched(files["train"])
    bundle, length = load_for(config, "span_extractor", USUAL_LENGTH)
    rows, targets = answer_rows(files["train"], bundle.tokenizer, length, config.stride or None)
    data = training_batches(rows, targets, batch_size=config.batch_size, seed=config.seed, epochs=config.epochs)

    def score(name):
        return scores_of(config, files[name], answers(config, bundle, files[name], length))

    epochs, kept = fit(
        config,
        bundle.model,
        data,
        steps_per_epoch(rows, config.batch_size),
        title="answer",
        loss=span_cross_entropy,
        score=(lambda: score("dev")) if "dev" in files else None,
        best="f1",
    )
    found = {name: score(name) for name in files if name != "train"}
    more = {"epochs": epochs, "kept_epoch": kept, "windows": len(rows)}
    faults = {
        "moved": {name: questions.moved for name, questions in files.items()},
        "unmatched": {name: questions.unmatched for name, questions in files.items()},
    }
    return finish(config, bundle, started, {**found, **more, **faults})


def answer_rows(questions, tokenizer, max_length, stride=None):
    """Cuts contexts into windows, each with its question before it.

    A window that holds the first right answer whole is labelled with it; others with [CLS], for no answer here.
    Questions whose answers are not in their context are left out.

    Args:
        questions: `Questions`.
        stride: tokens that windows have in common; None for 128, or a quarter of a short `max_length`.

    Returns:
        `Rows`, and `TokenLabels` (P, 2) int32: 1 at the first and at the last token of the answer, else 0, -1 at
        padding.
    """
    stride, first = window_stride(stride, max_length, True), first_text_room(max_length)
    windows, values = [], []
    for start in range(0, len(questions), QUESTIONS_AT_ONCE):
        chosen = slice(start, start + QUESTIONS_AT_ONCE)
        encodings = tokenizer.encode_batch(questions.questions[chosen], questions.contexts[chosen])
        for right, encoding in zip(questions.answers[chosen], encodings, strict=True):
            places = [(text, start) for text, start in right if start is not None]
            if right and not places:
                continue
            for window in text_windows(encoding, max_length, stride, first):
                found = np.zeros((len(window.ids), 2), "int32")
                found[answer_tokens(window, places), (0, 1)] = 1
                windows.append(window)
                values.append(found)
    return rows_of_encodings(windows, tokenizer.pad_id), TokenLabels(np.concatenate(values), padding=-1)


def answer_tokens(window, right):
    """The first and the last token of the first right answer; (0, 0), [CLS], where a window does not hold it whole."""
    if not right:
        return 0, 0
    text, start = right[0]
    text, start = text.strip(), start + len(text) - len(text.lstrip())
    end = start + len(text)
    begin = last_text(window)
    tokens = list(enumerate(window.offsets))[begin:-1]
    first = next((i for i, (a, b) in tokens if a <= start < b), None)
    last = next((i for i, (a, b) in tokens if a < end <= b), None)
    return (0, 0) if first is None or last is None else (first, last)


def answers(config, bundle, questions, max_length):
    """What `predict` says, which always gives a span beside the null score."""
    return keras_bert.predict(
        bundle,
        questions.questions,
        questions.contexts,
        max_length=max_length,
        stride=config.stride or None,
        max_answer_tokens=config.max_answer_tokens,
        null_threshold=ALWAYS,
    )


def scores_of(config, questions, found):
    """Scores answers: `squad_scores` or `cmrc_scores`.

    Where some questions have no answer, "" is said where the null score is the higher one, and the best threshold of
    their difference is reported.
    """
    texts = [[text for text, _ in answers] for answers in questions.answers]
    right = dict(zip(questions.ids, texts, strict=True))
    said = {name: row["answer"] or "" for name, row in zip(questions.ids, found, strict=True)}
    if is_cmrc(config, questions):
        return cmrc_scores(right, said)
    if all(right.values()):
        return squad_scores(right, said)
    null = {name: row["null_score"] - row["score"] for name, row in zip(questions.ids, found, strict=True)}
    scores = squad_scores(right, {name: "" if null[name] > 0 else text for name, text in said.items()})
    best = squad_scores(right, said, null)
    return scores | {name: value for name, value in best.items() if name.startswith("best_")}


def is_cmrc(config, questions):
    """Whether CMRC's rules hold: asked for, or because most right answers hold a Han character."""
    texts = [answers[0][0] for answers in questions.answers if answers]
    chinese = sum(bool(HAN.search(text)) for text in texts) > len(texts) / 2
    return config.metric == "cmrc" or (not config.metric and chinese)


def evaluate(config, bundle, path):
    """Scores a model on a file of questions: an `Evaluation`."""
    questions = read_questions(path)
    length = row_length(config, bundle, USUAL_LENGTH)
    found = answers(config, bundle, questions, length)
    metrics = scores_of(config, questions, found)
    metrics |= {"moved": questions.moved, "unmatched": questions.unmatched}
    some_have_none = not all(questions.answers)
    scores = cmrc_scores if is_cmrc(config, questions) else squad_scores
    errors = []
    for i, row in enumerate(found):
        right = [text for text, _ in questions.answers[i]]
        said = "" if some_have_none and row["null_score"] > row["score"] else row["answer"] or ""
        if scores({"": right}, {"": said})["em"]:
            continue
        shown = {"id": questions.ids[i], "question": questions.questions[i], "right": " | ".join(dict.fromkeys(right))}
        errors.append(shown | {"answer": said, "score": row["score"], "null_score": row["null_score"]})
    errors.sort(key=lambda row: -row["score"])
    return Evaluation(metrics, errors)
