"""EM and F1 against the rules of the official scripts, written again here, on 1,000 seeded right and wrong answers."""

import collections
import json
import random
import re
import string

import pytest

from keras_bert.training.metrics import cmrc_scores, squad_scores
from tests.conftest import shared_data

COUNT = 1000
ROUNDED = 5.01e-5  # to four places


def questions(name):
    """(id, question's context, right answers) of a seeded thousand of a file."""
    data = json.loads(shared_data(name).read_text(encoding="utf-8"))["data"]
    found = [
        (q["id"], paragraph["context"], [answer["text"] for answer in q["answers"]])
        for article in data
        for paragraph in article["paragraphs"]
        for q in paragraph["qas"]
    ]
    return random.Random(1).sample(found, COUNT)


def answered(found, edges):
    """An answer to each question: right, right with marks round it, a part, too much, another's, none."""
    draw, given = random.Random(2), {}
    for name, context, right in found:
        text = draw.choice(right) if right else ""
        start, size = draw.randrange(len(context)), draw.randint(1, 40)
        near = context.find(text)
        kinds = (
            text,
            text,
            draw.choice(edges) + text + draw.choice(edges),
            text.upper(),
            text[: draw.randint(0, len(text))],
            context[max(0, near - draw.randint(0, 12)) : near + len(text) + draw.randint(0, 12)],
            context[start : start + size],
            draw.choice(found)[2][:1],
            "",
        )
        chosen = draw.choice(kinds)
        given[name] = chosen if isinstance(chosen, str) else "".join(chosen)
    return given


class Squad:
    """evaluate-v2.0.py."""

    @staticmethod
    def normalize(text):
        text = "".join(character for character in text.lower() if character not in set(string.punctuation))
        return " ".join(re.compile(r"\b(a|an|the)\b", re.UNICODE).sub(" ", text).split())

    @classmethod
    def em(cls, right, given):
        return int(cls.normalize(right) == cls.normalize(given))

    @classmethod
    def f1(cls, right, given):
        right, given = cls.normalize(right).split(), cls.normalize(given).split()
        common = collections.Counter(right) & collections.Counter(given)
        if len(right) == 0 or len(given) == 0:
            return int(right == given)
        if sum(common.values()) == 0:
            return 0
        precision, recall = sum(common.values()) / len(given), sum(common.values()) / len(right)
        return 2 * precision * recall / (precision + recall)

    @classmethod
    def raw(cls, score, right, given):
        return max(score(answer, given) for answer in ([a for a in right if cls.normalize(a)] or [""]))

    @staticmethod
    def best(scores, given, null, answerable):
        current = best = sum(not has for has in answerable.values())
        threshold = 0.0
        for name in sorted(null, key=lambda k: null[k]):
            if answerable[name]:
                current += scores[name]
            elif given[name]:
                current -= 1
            if current > best:
                best, threshold = current, null[name]
        return best / len(scores), threshold


def test_squad():
    found = questions("squad2/dev_part.json")
    references = {name: right for name, _, right in found}
    given = answered(found, ["the ", " a", ".", " an ", '"', "-", "  ", "The"])
    em, f1 = ({n: Squad.raw(s, r, given[n]) for n, r in references.items()} for s in (Squad.em, Squad.f1))
    for name, right in references.items():  # each by itself, so that no two faults cancel out
        one = squad_scores({name: right}, {name: given[name]})
        assert (one["em"], one["f1"]) == (em[name], pytest.approx(f1[name], abs=ROUNDED)), (right, given[name])
    scores = squad_scores(references, given)
    answerable = {name: bool(right) for name, right in references.items()}
    assert 300 < sum(answerable.values()) < 700
    for part, names in (
        (scores, references),
        (scores["has_answer"], [name for name in references if answerable[name]]),
        (scores["no_answer"], [name for name in references if not answerable[name]]),
    ):
        assert part["examples"] == len(names)
        assert part["em"] == pytest.approx(sum(em[name] for name in names) / len(names), abs=ROUNDED)
        assert part["f1"] == pytest.approx(sum(f1[name] for name in names) / len(names), abs=ROUNDED)
        assert 0.1 < part["em"] < part["f1"] < 0.9 or part is scores["no_answer"]
    draw = random.Random(3)
    always = {name: text or "x" for name, text in given.items()}
    null = {name: draw.gauss(0.0 if answerable[name] else 1.0, 1.0) for name in references}
    scores = squad_scores(references, always, null)
    for key, score in (("em", Squad.em), ("f1", Squad.f1)):
        raw = {name: Squad.raw(score, right, always[name]) for name, right in references.items()}
        best, threshold = Squad.best(raw, always, null, answerable)
        assert (scores[f"best_{key}"], scores[f"best_{key}_threshold"]) == (pytest.approx(best, abs=ROUNDED), threshold)


# NLTK's word tokenizer in the order of its steps, but for contractions such as "cannot"
STEPS = [
    (r"([«“‘„]|[`]+)", r" \1 "),
    (r'^"', r"``"),
    (r"(``)", r" \1 "),
    (r"([ \(\[{<])(\"|'{2})", r"\1 `` "),
    (r"(?i)(?<!\w)(')(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)", r"\1 "),
    (r'([^\.])(\.)([\]\)}>"\'»”’ ]*)\s*$', r"\1 \2 \3 "),
    (r"([:,])([^\d])", r" \1 \2"),
    (r"([:,])$", r" \1 "),
    (r"\.{2,}", r" \g<0> "),
    (r"[;@#$%&]", r" \g<0> "),
    (r"[\u2012-\u2015]", r" \g<0> "),
    (r'([^\.])(\.)([\]\)}>"\']*)\s*$', r"\1 \2\3 "),
    (r"[?!]", r" \g<0> "),
    (r"([^'])' ", r"\1 ' "),
    (r"[*]", r" \g<0> "),
    (r"[\]\[\(\)\{\}\<\>]", r" \g<0> "),
    (r"--", r" -- "),
    (r"^|$", " "),
    (r"([»”’])", r" \1 "),
    (r"''", " '' "),
    (r'"', " '' "),
    (r"\s+", " "),
    (r"([^' ])('[sS]|'[mM]|'[dD]|') ", r"\1 \2 "),
    (r"([^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T) ", r"\1 \2 "),
]


class Cmrc:
    """cmrc2018_evaluate.py."""

    dropped = tuple("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")

    @staticmethod
    def words(text):
        for pattern, replacement in STEPS:
            text = re.sub(pattern, replacement, text)
        return text.split()

    @classmethod
    def segments(cls, text):
        found, latin = [], ""
        for character in text.lower().strip():
            if character in cls.dropped:
                continue
            if re.search("[\u4e00-\u9fa5]", character):
                found += [*cls.words(latin), character]
                latin = ""
            else:
                latin += character
        return found + cls.words(latin)

    @classmethod
    def em(cls, right, given):
        bare = ["".join(c for c in text.lower().strip() if c not in cls.dropped) for text in (right, given)]
        return int(bare[0] == bare[1])

    @classmethod
    def f1(cls, right, given):
        right, given = cls.segments(right), cls.segments(given)
        table, longest = [[0] * (len(given) + 1) for _ in range(len(right) + 1)], 0
        for i, one in enumerate(right):
            for j, other in enumerate(given):
                if one == other:
                    table[i + 1][j + 1] = table[i][j] + 1
                    longest = max(longest, table[i + 1][j + 1])
        if longest == 0:
            return 0
        precision, recall = longest / len(given), longest / len(right)
        return 2 * precision * recall / (precision + recall)


def test_cmrc():
    found = questions("cmrc2018/trial.json")
    references = {name: right for name, _, right in found}
    given = answered(found, ["《", "，", "。", "、", "的", " ", "ω-", "2,"])
    em, f1 = (
        {name: max(score(answer, given[name]) for answer in right) for name, right in references.items()}
        for score in (Cmrc.em, Cmrc.f1)
    )
    for name, right in references.items():
        one = cmrc_scores({name: right}, {name: given[name]})
        assert (one["em"], one["f1"]) == (em[name], pytest.approx(f1[name], abs=ROUNDED)), (right, given[name])
    scores = cmrc_scores(references, given)
    assert scores["em"] == pytest.approx(sum(em.values()) / COUNT, abs=ROUNDED)
    assert scores["f1"] == pytest.approx(sum(f1.values()) / COUNT, abs=ROUNDED)
    assert 0.2 < scores["em"] < scores["f1"] < 0.9
