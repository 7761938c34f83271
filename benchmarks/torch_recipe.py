"""The recipes of `benchmarks.scores` in torch and `transformers`, as their own examples write them.

AdamW without decay of vectors, a tenth of warm-up, a linear fall, clipping; rows padded to their batch's longest.
"""

import random

import numpy as np
import torch
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from keras_bert.training.questions import read_questions
from keras_bert.training.recipes import answer, classify, tag
from keras_bert.training.tagged import read_tagged, tag_names

ASKED_AT_ONCE = 64
UNASKED = -100  # what torch's cross entropy leaves out
BEST = 20  # of first and of last tokens, which are paired


def answers(config):
    """Trains as the settings of our recipe say, and answers the test examples, as `score_tasks.ours` does."""
    torch.manual_seed(config.seed)
    random.seed(config.seed)
    kinds = {classify.Classify: classes, tag.Tag: tags, answer.Answer: texts}
    return kinds[type(config)](config, AutoTokenizer.from_pretrained(config.model))


def train(config, model, count, loss_of):
    """Trains `model` on `count` rows; `loss_of` gives the loss of the rows with some indices."""
    decayed = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=config.learning_rate, eps=1e-6)
    total = -(-count // config.batch_size) * config.epochs
    warmup = total // 10
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / max(1, warmup), (total - step) / (total - warmup))
    )
    model.train()
    for _ in range(config.epochs):
        order = random.sample(range(count), count)
        for start in range(0, count, config.batch_size):
            loss = loss_of(order[start : start + config.batch_size])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()


def asked(model, count, features):
    """Yields the indices of some rows, their features and the model's output, until all `count` were asked."""
    model.eval()
    for start in range(0, count, ASKED_AT_ONCE):
        chosen = range(start, min(start + ASKED_AT_ONCE, count))
        encoded = features(chosen)
        with torch.no_grad():
            yield chosen, encoded, model(**encoded)


def classes(config, tokenizer):
    train_file, test = (classify.read(config, path) for path in (config.train, config.test))
    labels = classify.labels_of(config, train_file)
    model = AutoModelForSequenceClassification.from_pretrained(config.model, num_labels=len(labels) if labels else 1)
    targets = torch.tensor(classify.targets_of(config, train_file, labels))
    cross_entropy, squared_error = torch.nn.CrossEntropyLoss(), torch.nn.MSELoss()

    def features(examples, chosen):
        parts = [[texts[i] for i in chosen] for texts in (examples.texts, examples.pairs) if texts]
        return tokenizer(*parts, truncation=True, max_length=config.max_length, padding=True, return_tensors="pt")

    def loss_of(chosen):
        logits, right = model(**features(train_file, chosen)).logits, targets[chosen]
        return cross_entropy(logits, right.long()) if labels else squared_error(logits.squeeze(-1), right)

    train(config, model, len(train_file), loss_of)
    found = asked(model, len(test), lambda chosen: features(test, chosen))
    outputs = np.concatenate([output.logits.numpy() for *_, output in found])
    return (outputs.argmax(axis=1) if labels else outputs[:, 0]).tolist()


def tags(config, tokenizer):
    """A word's label is that of its first token; words that are cut or have no token are O."""
    train_file, test = (read_tagged(path) for path in (config.train, config.test))
    labels = tag_names(train_file)
    classes_of = {label: i for i, label in enumerate(labels)}
    model = AutoModelForTokenClassification.from_pretrained(config.model, num_labels=len(labels))

    def features(tagged, chosen):
        words = [tagged.words[i] for i in chosen]
        return tokenizer(
            words, is_split_into_words=True, truncation=True, max_length=config.max_length, padding=True,
            return_tensors="pt",
        )  # fmt: skip

    def first_tokens(encoded, row):
        """(token, word) of each word's first token."""
        numbers = encoded.word_ids(row)
        return [(i, w) for i, w in enumerate(numbers) if w is not None and (i == 0 or numbers[i - 1] != w)]

    def loss_of(chosen):
        encoded = features(train_file, chosen)
        targets = torch.full(encoded["input_ids"].shape, UNASKED)
        for row, i in enumerate(chosen):
            for token, word in first_tokens(encoded, row):
                targets[row, token] = classes_of[train_file.labels[i][word]]
        return model(**encoded, labels=targets).loss

    train(config, model, len(train_file), loss_of)
    said = [["O"] * len(words) for words in test.words]
    for chosen, encoded, output in asked(model, len(test), lambda chosen: features(test, chosen)):
        best = output.logits.argmax(-1)
        for row, i in enumerate(chosen):
            for token, word in first_tokens(encoded, row):
                said[i][word] = labels[best[row, token]]
    return said


def texts(config, tokenizer):
    """Windows with a stride; the best span of all of a question's windows, "" where the least null score beats it."""
    train_file, test = (read_questions(path) for path in (config.train, config.test))
    model = AutoModelForQuestionAnswering.from_pretrained(config.model)
    rows, test_rows = (windows(config, tokenizer, questions) for questions in (train_file, test))
    right = [train_file.answers[question] for question in rows["questions"]]
    places = torch.tensor([answer_tokens(rows, i, answers) for i, answers in enumerate(right)])

    def features(found, chosen):
        names = ("input_ids", "token_type_ids", "attention_mask")
        return tokenizer.pad({name: [found[name][i] for i in chosen] for name in names}, return_tensors="pt")

    def loss_of(chosen):
        first, last = places[chosen].T
        return model(**features(rows, chosen), start_positions=first, end_positions=last).loss

    train(config, model, len(places), loss_of)
    null, best = np.full(len(test), np.inf), [(-np.inf, "")] * len(test)
    count = len(test_rows["questions"])
    for chosen, _, output in asked(model, count, lambda chosen: features(test_rows, chosen)):
        for row, i in enumerate(chosen):
            question = test_rows["questions"][i]
            first, last = output.start_logits[row].numpy(), output.end_logits[row].numpy()
            null[question] = min(null[question], first[0] + last[0])
            span = best_span(first, last, test_rows["contexts"][i], config.max_answer_tokens)
            if span is not None and span[0] > best[question][0]:
                start, end = (test_rows["offset_mapping"][i][token][side] for side, token in enumerate(span[1:]))
                best[question] = (span[0], test.contexts[question][start:end])
    return ["" if null[i] > score else text for i, (score, text) in enumerate(best)]


def windows(config, tokenizer, questions):
    """All windows of all questions: lists under the tokenizer's names, "questions" and "contexts", their tokens."""
    found = tokenizer(
        questions.questions,
        questions.contexts,
        truncation="only_second",
        max_length=config.max_length,
        stride=config.stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    contexts = [
        [i for i, part in enumerate(found.sequence_ids(number)) if part == 1]
        for number in range(len(found["input_ids"]))
    ]
    return {**found, "questions": found["overflow_to_sample_mapping"], "contexts": contexts}


def answer_tokens(rows, number, right):
    """The first and the last token of the first right answer; [CLS] where the window does not hold it whole."""
    if not right:
        return 0, 0
    text, start = right[0]
    spans, end = rows["offset_mapping"][number], start + len(text)
    first = next((i for i in rows["contexts"][number] if spans[i][0] <= start < spans[i][1]), None)
    last = next((i for i in rows["contexts"][number] if spans[i][0] < end <= spans[i][1]), None)
    return (0, 0) if first is None or last is None else (first, last)


def best_span(first, last, allowed, longest):
    """(score, first token, last token) of the best span in the context, or None."""
    starts = [i for i in np.argsort(-first)[:BEST] if i in allowed]
    ends = [i for i in np.argsort(-last)[:BEST] if i in allowed]
    spans = [(first[i] + last[j], i, j) for i in starts for j in ends if i <= j < i + longest]
    return max(spans, default=None)
