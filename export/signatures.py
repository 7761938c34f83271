"""What every format exports of a bundle: named outputs for ids, named answers for texts. Keras runs in TensorFlow."""

import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.answers import CLASSES, PAIR_SCORES, SCORES, VECTORS
from keras_bert.heads import HEADS
from keras_bert.prediction import id_limits
from keras_bert.tokenization.tokenizer import Tokenizer
from keras_bert.tokenization.vocabulary import write_vocab

# of models with one output that is not logits
OUTPUT_NAMES = {"sentence_embedder": "embedding", "sequence_regressor": "score", "reranker": "score"}

MASKED = "masked_positions"


def takes_text(bundle):
    """Whether a text alone is enough for an answer: there is a tokenizer, and the model needs only what it gives."""
    head = HEADS.get(bundle.head)
    # those with other answers take ids, for now
    answers_texts = head is not None and head.answer in (CLASSES, SCORES, PAIR_SCORES, VECTORS)
    return answers_texts and isinstance(bundle.tokenizer, Tokenizer)  # those of the host are no graphs


def takes_pairs(bundle):
    """Whether two texts are: with one segment alone, the second text would have none."""
    return takes_text(bundle) and bundle.config.type_vocab_size != 1


def inputs(bundle):
    """Names of the model's inputs, in order; each is (B, T) int32, `masked_positions` (B, P), choices (B, N, T)."""
    return tuple(bundle.model.input)


def axes(bundle, name):
    """Names of an input's axes: ("batch", "sequence"), for choices ("batch", "choices", "sequence")."""
    last = "masked" if name == MASKED else "sequence"
    return ("batch", "choices", last) if len(bundle.model.input[name].shape) == 3 else ("batch", last)


def id_specs(bundle, dtype):
    """Gives a `tf.TensorSpec` of free sizes for each input."""
    return {name: tf.TensorSpec([None] * len(axes(bundle, name)), dtype, name=name) for name in inputs(bundle)}


def named(bundle, outputs):
    """Gives the model's output as a dict: `logits`, `embedding`, or the model's own names."""
    return outputs if isinstance(outputs, dict) else {OUTPUT_NAMES.get(bundle.head, "logits"): outputs}


def model_outputs(bundle, features):
    """Runs the model on tensors, to named outputs."""
    return named(bundle, bundle.model(features, training=False))


def answers(bundle, features):
    """Runs the model on tensors, to the head's named answers."""
    return answered(bundle, features, bundle.model(features, training=False))


def answered(bundle, features, outputs):
    """Gives the head's named answers of the model's outputs."""
    head = HEADS[bundle.head]
    return head.answer.arrays(outputs, features, bundle, head.answer.settings)


def clamped(bundle, features):
    """Moves ids that the model does not have to the nearest one that it has, for runtimes without assertions."""
    return {name: ops.clip(features[name], 0, limit - 1) if limit else features[name] for name, limit in limits(bundle)}


def limits(bundle):
    """Gives (name, values below which an id must be) of each input; None for `masked_positions`, whose limit is T."""
    known = {**id_limits(bundle.config), MASKED: None}
    return [(name, known[name]) for name in inputs(bundle)]


class Keras:
    """Runs a bundle on arrays as `predict` does, in a graph for all sizes.

    Keras itself compiles the first batch that it sees for that size alone, which rounds otherwise in the seventh digit.
    """

    def __init__(self, bundle):
        self.bundle = bundle
        specs = [id_specs(bundle, tf.int32)]
        self.model = tf.function(
            lambda features: bundle.model(features, training=False), input_signature=specs, autograph=False
        )

    def outputs(self, features):
        """Named outputs for arrays of ids."""
        return arrays(named(self.bundle, self._run(features)))

    def answers(self, texts, pairs, max_length):
        """Named answers for lists of texts, in one batch."""
        return self.answers_to(self.bundle.tokenizer(texts, pairs, max_length=max_length))

    def answers_to(self, features):
        """Named answers for arrays of ids."""
        return arrays(answered(self.bundle, features, self._run(features)))

    def _run(self, features):
        return self.model({name: tf.constant(features[name], tf.int32) for name in inputs(self.bundle)})


def arrays(outputs):
    """Gives NumPy arrays of tensors."""
    return {name: np.asarray(ops.convert_to_numpy(value)) for name, value in outputs.items()}


def write_names(bundle, folder):
    """Writes vocab.txt and labels.txt, each where the bundle has it; gives their paths."""
    paths = []
    if isinstance(bundle.tokenizer, Tokenizer):
        paths.append(folder / "vocab.txt")
        write_vocab(bundle.tokenizer.vocab, paths[-1])
    if bundle.labels is not None:
        paths.append(folder / "labels.txt")
        paths[-1].write_text("".join(f"{label}\n" for label in bundle.labels), encoding="utf-8")
    return paths
