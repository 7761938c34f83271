"""Asks a TFLite file as MediaPipe does, in a Python with mediapipe: HEAD FILE, a JSON list of texts on stdin."""

import json
import sys

from mediapipe.tasks import python
from mediapipe.tasks.python import text


def classified(task, sentence):
    """Label -> probability."""
    found = task.classify(sentence).classifications[0].categories
    return {category.category_name: float(category.score) for category in found}


def embedded(task, sentence):
    """The vector."""
    return [float(value) for value in task.embed(sentence).embeddings[0].embedding]


head, file = sys.argv[1:]
base = python.BaseOptions(model_asset_path=file)
if head == "sequence_classifier":
    task, ask = text.TextClassifier.create_from_options(text.TextClassifierOptions(base_options=base)), classified
else:
    task, ask = text.TextEmbedder.create_from_options(text.TextEmbedderOptions(base_options=base)), embedded
print(json.dumps([ask(task, sentence) for sentence in json.load(sys.stdin)]))
