"""The command line in a process of its own, for test_recipes_on_workers.py: TF_CONFIG says which of several it is.

`python -m tests.training.command_line_worker OUT WORDS...` writes OUT, JSON: a digest of the weights at the end.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_bert.training import distribution
from keras_bert_cli.main import app


def main(out, words):
    fit, digests = distribution.Prepared.fit, []

    def watched_fit(model, *arguments, **options):
        result = fit(model, *arguments, **options)
        weights = np.concatenate([weight.numpy().ravel() for weight in model.trainable_weights])
        digests.append(hashlib.sha256(weights.tobytes()).hexdigest())
        return result

    distribution.Prepared.fit = watched_fit
    app(words, standalone_mode=False)
    Path(out).write_text(json.dumps(digests[-1]))


if __name__ == "__main__":
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # half of the time of tiny steps
    main(sys.argv[1], sys.argv[2:])
