"""Run by the interpreter of a witness, which does not know this package: scores tags by seqeval.

    python witness_seqeval.py < TAGS > SCORES

TAGS is {name: [right, given]}, lists of sentences' tags; SCORES is {name: {"accuracy", "types"}}, the latter what
`classification_report` says.
"""

import json
import sys
import warnings

from seqeval.metrics import accuracy_score, classification_report


def seen(rows):
    """BMES as BIOES, which seqeval reads."""
    return [[f"I-{tag[2:]}" if tag.startswith("M-") else tag for tag in tags] for tags in rows]


def scores(right, given):
    report = classification_report(seen(right), seen(given), output_dict=True, digits=6, zero_division=0)
    types = {kind: {key: float(value) for key, value in row.items()} for kind, row in report.items()}
    return {"accuracy": float(accuracy_score(right, given)), "types": types}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    json.dump({name: scores(*both) for name, both in json.load(sys.stdin).items()}, sys.stdout)
