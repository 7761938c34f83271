"""Questions with their contexts and answers, from files in the layout of SQuAD 1.1, SQuAD 2.0 or CMRC 2018."""

import dataclasses
from pathlib import Path

from keras_bert.files import read_json

UNMATCHED_SHARE = 0.01
SHOWN = 5


@dataclasses.dataclass(frozen=True)
class Questions:
    """The questions of a file, in its order.

    Args:
        path: the file, for messages.
        ids, questions, contexts: lists of str.
        answers: as many lists of (text, start in code points of the context); none where there is no answer. The start
            is None where the context does not hold the text.
        moved: how many answers did not stand where the file says, and were found elsewhere in their context.
        unmatched: list of (id, text) of those that are nowhere in it.
    """

    path: Path
    ids: list[str]
    questions: list[str]
    contexts: list[str]
    answers: list[list[tuple[str, int | None]]]
    moved: int
    unmatched: list[tuple[str, str]]

    def __len__(self):
        return len(self.ids)


def read_questions(path):
    """Reads a file of data[].paragraphs[].qas[]; with `is_impossible`, or without answers, a question has none.

    An answer that does not stand at its `answer_start` is looked for, and the nearest place is taken.

    Raises:
        ValueError: the file has another layout or no question, or an id is there twice.
    """
    path = Path(path)
    rows, moved, unmatched = [], 0, []
    for context, asked in _asked(path):
        found = []
        for answer in () if asked.get("is_impossible") else asked["answers"]:
            text, start = answer["text"], answer["answer_start"]
            place = nearest(context, text, start)
            if place is None:
                unmatched.append((str(asked["id"]), text))
            else:
                moved += place != start
            found.append((text, place))
        rows.append((str(asked["id"]), asked["question"], context, found))
    if not rows:
        raise ValueError(f"{path} must hold at least one question, got none.")
    ids = [row[0] for row in rows]
    if len(set(ids)) < len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise ValueError(f"{path} has the question id {twice} twice.")
    return Questions(path, ids, *([row[i] for row in rows] for i in (1, 2, 3)), moved, unmatched)


def check_matched(questions):
    """Refuses to learn from a file in which more than 1% of the answers are not in their context; shows some."""
    total = sum(map(len, questions.answers))
    if len(questions.unmatched) > UNMATCHED_SHARE * total:
        shown = "; ".join(f"{name}: `{text[:40]}`" for name, text in questions.unmatched[:SHOWN])
        raise ValueError(
            f"{len(questions.unmatched)} of {total} answers in {questions.path} are not in their context, at most 1% "
            f"may be so: {shown}."
        )


def nearest(context, text, start):
    """Where `text` stands in `context`, nearest to `start`; None where it does not, or is empty."""
    if not text.strip():
        return None
    if context[start : start + len(text)] == text and start >= 0:
        return start
    places, place = [], context.find(text)
    while place >= 0:
        places.append(place)
        place = context.find(text, place + 1)
    return min(places, key=lambda place: abs(place - start), default=None)


def _asked(path):
    """Yields (context, question as a dict) of the file, whose layout is checked."""
    layout = f"{path} must have SQuAD's layout: data, paragraphs, context, qas with id, question and answers"

    def part(values, name, kind):
        if not isinstance(values, dict) or not isinstance(values.get(name), kind):
            raise ValueError(f"{layout}; `{name}` is missing or of another type.")
        return values[name]

    for article in part(read_json(path), "data", list):
        for paragraph in part(article, "paragraphs", list):
            context = part(paragraph, "context", str)
            for asked in part(paragraph, "qas", list):
                part(asked, "question", str)
                part(asked, "id", str | int)
                asked = {"answers": [], **asked}
                for answer in part(asked, "answers", list):
                    part(answer, "text", str)
                    part(answer, "answer_start", int)
                yield context, asked
