"""Exact match and F1 of extracted answers, by the rules of SQuAD 1.1 and 2.0 and of CMRC 2018."""

import collections
import re
import string

import numpy as np

PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")
# What CMRC drops before it compares, and what parts words
CHINESE_PUNCTUATION = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
HAN = re.compile("[\u4e00-\u9fa5]")
# In runs without Han characters, what is a word by itself though no blank parts it: opening quotation marks, other
# marks, runs of points, the point at the end, clitics
OPENING = re.compile(r'(^|[ (\[{<])"')
MARKS = re.compile(
    r"`+|''|[«»“”‘’„;@#$%&?!*\[\](){}<>\u2012-\u2015]|\.{2,}|--|[:,](?!\d)|(?<=[^.])\.(?=[\])}>\"' ]*$)"
    r"|n't(?= |$)|(?<=[^' ])'(?:s|m|d|ll|re|ve)?(?= |$)"
)


def squad_scores(references, answers, null_scores=None):
    """Scores answers to questions; shares, where the official scripts print percents.

    Args:
        references: dict from a question's id to its right answers, list of str; none where it has no answer.
        answers: dict from id to the answer, str; "" for none.
        null_scores: dict from id to how much rather there is no answer, for the best threshold.

    Returns:
        dict: "examples", "em", "f1"; if some questions have no answer also "has_answer" and "no_answer", the same of
        either kind; with `null_scores` also "best_em", "best_em_threshold", "best_f1", "best_f1_threshold", for
        `answers` that are never "".

    Raises:
        ValueError: a question has no answer in `answers`.

    Source: the rules of evaluate-v1.1 and evaluate-v2.0.
    """
    pairs = {}
    for name, right in references.items():
        if name not in answers:
            raise ValueError(f"Question {name} must have an answer, which may be '', got none.")
        right = [answer for answer in right if normalized(answer)] or [""]
        given = answers[name]
        pairs[name] = (max(_exact(a, given) for a in right), max(_overlap(a, given) for a in right))
    scores = _means(pairs.values())
    answerable = {name for name, right in references.items() if right}
    if len(answerable) < len(references):
        for key, chosen in (("has_answer", answerable), ("no_answer", references.keys() - answerable)):
            scores[key] = _means([pairs[name] for name in chosen]) if chosen else {"examples": 0}
    if null_scores is not None:
        for position, key in enumerate(("em", "f1")):
            one = {name: pair[position] for name, pair in pairs.items()}
            scores[f"best_{key}"], scores[f"best_{key}_threshold"] = best_threshold(
                one, answers, null_scores, answerable
            )
    return scores


def best_threshold(scores, answers, null_scores, answerable):
    """The threshold of the null score above which "no answer" is said, with the best mean score.

    Args:
        scores: dict from id to the answer's score, 0 to 1.
        answerable: ids of questions that have an answer.

    Returns:
        the mean score, and the threshold.
    """
    best = total = len(scores) - len(answerable & scores.keys())
    threshold = 0.0
    for name in sorted(scores, key=null_scores.__getitem__):
        total += scores[name] if name in answerable else -bool(answers[name])
        if total > best:
            best, threshold = total, null_scores[name]
    return round(best / len(scores), 4), float(threshold)


def normalized(text):
    """Lower-case words without punctuation and articles, one blank between them."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def _exact(right, given):
    return float(normalized(right) == normalized(given))


def _overlap(right, given):
    right, given = normalized(right).split(), normalized(given).split()
    if not right or not given:
        return float(right == given)
    both = sum((collections.Counter(right) & collections.Counter(given)).values())
    return 2 * both / (len(right) + len(given))


def cmrc_scores(references, answers):
    """Scores Chinese answers, character by character; arguments and errors as for `squad_scores`.

    F1 counts the longest run that both have in common, of Han characters, and of words where the text is not Chinese.

    Returns:
        dict: "examples", "em", "f1".

    Source: the rules of cmrc2018_evaluate. Differs: words that are not Chinese are found by a few patterns, not
    by the library nltk; all but 3 in 1,000 texts of CMRC's dev set are cut alike.
    """
    pairs = []
    for name, right in references.items():
        if name not in answers:
            raise ValueError(f"Question {name} must have an answer, which may be '', got none.")
        given, right = answers[name], right or [""]
        exact = any(_without_marks(answer) == _without_marks(given) for answer in right)
        pairs.append((float(exact), max(_common_run(answer, given) for answer in right)))
    return _means(pairs)


def _without_marks(text):
    return "".join(character for character in text.lower().strip() if character not in CHINESE_PUNCTUATION)


def _common_run(right, given):
    right, given = _segments(right), _segments(given)
    row, longest = [0] * (len(given) + 1), 0
    for x in right:
        row = [0, *(row[j] + 1 if x == y else 0 for j, y in enumerate(given))]
        longest = max(longest, *row)
    return 2 * longest / (len(right) + len(given)) if longest else 0.0


def _segments(text):
    segments = []
    for part in re.split("([\u4e00-\u9fa5])", _without_marks(text)):
        segments += [part] if HAN.fullmatch(part) else _words(part)
    return segments


def _words(text):
    return MARKS.sub(r" \g<0> ", OPENING.sub(r"\1 `` ", text).replace('"', "''")).split()


def _means(pairs):
    em, f1 = np.mean(list(pairs), axis=0)
    return {"examples": len(pairs), "em": round(float(em), 4), "f1": round(float(f1), 4)}
