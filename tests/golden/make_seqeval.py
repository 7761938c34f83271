"""Writes entities.json: tags of every scheme, right and wrong ones, and what seqeval 1.2.2 says of them.

Run where seqeval is installed: python tests/golden/make_seqeval.py
"""

import json
import random
import warnings
from pathlib import Path

from seqeval.metrics import accuracy_score, classification_report

SCHEMES = {"IOB1": "BI", "BIO": "BI", "BMES": "BMES", "BIOES": "BIES"}
TYPES = ("PER", "LOC", "PER.NOM", "creative-work")


def entity(scheme, length, kind, touches):
    """The tags of one entity."""
    if scheme == "IOB1":
        places = ["B" if touches else "I", *"I" * (length - 1)]
    elif scheme == "BIO":
        places = ["B", *"I" * (length - 1)]
    else:
        middle = "M" if scheme == "BMES" else "I"
        places = ["S"] if length == 1 else ["B", *middle * (length - 2), "E"]
    return [f"{place}-{kind}" for place in places]


def sentence(rng, scheme):
    tags = []
    for _ in range(rng.randint(0, 6)):
        kind = rng.choice(TYPES)
        if rng.random() < 0.5:
            tags += ["O"] * rng.randint(1, 3)
        tags += entity(scheme, rng.randint(1, 4), kind, bool(tags) and tags[-1].endswith(f"-{kind}"))
    return tags


def answered(rng, scheme, tags):
    """The tags with some changed to any other, so that the scheme's rules are broken too."""
    every = ["O"] + [f"{place}-{kind}" for place in SCHEMES[scheme] for kind in TYPES]
    return [rng.choice(every) if rng.random() < 0.15 else tag for tag in tags]


def main():
    warnings.simplefilter("ignore")
    rng, cases = random.Random(0), []
    for scheme in SCHEMES:
        right = [sentence(rng, scheme) for _ in range(60)]
        given = [answered(rng, scheme, tags) for tags in right]

        def seen(rows):
            return [[tag.replace("M-", "I-", 1) if tag.startswith("M-") else tag for tag in tags] for tags in rows]

        report = classification_report(seen(right), seen(given), output_dict=True, digits=6, zero_division=0)
        scores = {kind: {name: float(value) for name, value in values.items()} for kind, values in report.items()}
        accuracy = float(accuracy_score(right, given))
        cases.append({"scheme": scheme, "right": right, "answers": given, "accuracy": accuracy, "scores": scores})
    (Path(__file__).parent / "entities.json").write_text(json.dumps(cases), encoding="utf-8")


if __name__ == "__main__":
    main()
