"""What every format exports of a bundle: named outputs for ids, named answers for texts. Keras runs in TensorFlow."""

import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.answers import checked_settings
from keras_bert.asking import ask, window_room, window_stride
from keras_bert.heads import HEADS
from keras_bert.prediction import checked_length, id_limits
from keras_bert.tokenization.tokenizer import Tokenizer
from keras_bert.tokenization.vocabulary import write_vocab

# of models with one output that is not logits
OUTPUT_NAMES = {"sentence_embedder": "embedding", "sequence_regressor": "score", "reranker": "score"}

MASKED = "masked_positions"
# of a batch's, whose number has no limit; as many as in `predict`, because batches of other sizes round otherwise
WINDOWS_AT_ONCE = 32
# strings that a head is asked, by what it takes
TEXT_INPUTS = {
    "texts": ("text",),
    "masks": ("text",),
    "documents": ("text",),
    "pairs": ("text", "text_pair"),
    "choices": ("text", "choices"),
    "contexts": ("question", "context"),
}


def takes(bundle):
    """What the head is asked, as `answers.Answer` has it; None where there is no answer to a text."""
    head = HEADS.get(bundle.head)
    if head is None or head.answer is None or not isinstance(bundle.tokenizer, Tokenizer):
        return None  # tokenizers of the host are no graphs
    if head.answer.takes == "masks" and "[MASK]" not in bundle.tokenizer.special_tokens:
        return None
    two = len(TEXT_INPUTS[head.answer.takes]) == 2
    return None if two and bundle.config.type_vocab_size == 1 else head.answer.takes


def may_take_pairs(bundle):
    """Whether a second text may be given or not: with one segment alone, it would have none."""
    return takes(bundle) in ("texts", "masks") and bundle.config.type_vocab_size != 1


def may_take_windowed_pairs(bundle, settings):
    """`may_take_pairs`, and a `stride` leaves room for the windows of two texts."""
    stride = settings.get("stride")
    return may_take_pairs(bundle) and (stride is None or stride < window_room(settings["max_length"], paired=True))


def text_settings(bundle, max_length, given):
    """Gives the head's settings for texts, complete and checked; refuses any where texts are not taken."""
    length = checked_length(max_length, bundle)
    if takes(bundle) is None:
        if given:
            raise ValueError(f"`{next(iter(given))}` is for answers to texts, and this export takes ids.")
        return {"max_length": length}
    settings = checked_settings(bundle, HEADS[bundle.head], given)
    settings |= {"max_length": length, "batch_size": WINDOWS_AT_ONCE}
    if takes(bundle) == "contexts" and settings["top"] != 1:
        raise ValueError(f"`top` must be 1 in exports of a {bundle.head}, got {settings['top']}.")
    if "stride" in settings:
        window_stride(settings["stride"], length, takes(bundle) == "contexts")
    return settings


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


def run_model(bundle, features):
    """Runs the model on tensors, of which there may be more than its inputs."""
    return bundle.model({name: features[name] for name in inputs(bundle)}, training=False)


def model_outputs(bundle, features):
    """Runs the model on tensors, to named outputs."""
    return named(bundle, run_model(bundle, features))


def answers(bundle, features, settings):
    """Runs the model on tensors, to the head's named answers."""
    return answered(bundle, run_model(bundle, features), features, settings)


def answered(bundle, outputs, features, settings):
    """Gives the head's named answers of the model's output."""
    return HEADS[bundle.head].answer.arrays(outputs, features, bundle, settings)


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
        return named(self.bundle, self._run(features))

    def asked(self, texts, pairs, settings):
        """Answers lists of texts (str or bytes) in one batch, as `predict` does: `asking.Asked`."""
        texts, pairs = _as_text(texts), None if pairs is None else _as_text(pairs)
        return ask(self.bundle, texts, pairs, settings, self._run)

    def answers_to(self, features):
        """Named answers for arrays of ids, to the head's default settings."""
        settings = HEADS[self.bundle.head].answer.settings
        return arrays(answered(self.bundle, self._run(features), features, settings))

    def _run(self, features):
        outputs = self.model({name: tf.constant(features[name], tf.int32) for name in inputs(self.bundle)})
        return arrays(outputs) if isinstance(outputs, dict) else np.asarray(outputs)


def _as_text(texts):
    """Decodes bytes, also in lists of choices."""
    if isinstance(texts, list | tuple):
        return [_as_text(text) for text in texts]
    return texts if isinstance(texts, str) else texts.decode("utf-8", "replace")


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
