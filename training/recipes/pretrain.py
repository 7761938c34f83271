"""Recipe: text in, a small BERT pretrained with masked words and next sentences out."""

import dataclasses
import itertools
import math
import shutil
import statistics
import time
from pathlib import Path

import keras
import numpy as np

import keras_bert
from keras_bert.config import BertConfig
from keras_bert.files import check_replaceable
from keras_bert.tokenization.tokenizer import Tokenizer
from keras_bert.training import corpus
from keras_bert.training.checkpoints import Checkpoints, newest_checkpoint
from keras_bert.training.distribution import prepare
from keras_bert.training.losses import pretraining_objectives
from keras_bert.training.metrics import wilson_interval
from keras_bert.training.optimization import adamw, print_decay, warmup_linear
from keras_bert.training.pairs import TASKS, tokenize_documents
from keras_bert.training.precision import PRECISIONS, precision
from keras_bert.training.pretraining_batches import MASKINGS, check_choice, pretraining_batches
from keras_bert.training.progress import ProgressBar
from keras_bert.training.run_folder import write_run
from keras_bert.training.shards import read_shards, select_documents
from keras_bert.training.strategies import STRATEGIES, check_batch_size, is_chief, strategy
from keras_bert.training.vocabulary import train_vocab
from keras_bert.training.words import find_segmenter

PYTHON_DOCS = "python-docs"
REPORTS = 10  # points of the curves
TIMED_STEPS = 12
TRAINING_SHARE = 0.9  # of the time left; the rest is for the held-out documents and for saving
MAY_DIFFER = ("out", "strategy", "resume", "checkpoint_every")  # between a run and the one that goes on from it
RESULTS = [
    (task, name, log) for task in ("mlm", "nsp") for name, log in (("loss", "cross_entropy"), ("accuracy", "accuracy"))
]


@dataclasses.dataclass(frozen=True)
class Pretrain:
    """What to pretrain on and how.

    Args:
        out: folder to write: the model, and `metrics.json` beside its files.
        corpus: "python-docs", the documentation inside Python, or text files: one path or a tuple of them; or a folder
            that `prepare` wrote, whose tokenizer and words are then used in place of `vocab_size`, `lowercase` and
            `segmenter`.
        vocab_size: the most tokens to train; a small corpus may give fewer.
        max_length: T, tokens of a pair.
        steps: batches to train on; 0 takes as many as fit into `minutes` on this machine.
        learning_rate: its peak, after a tenth of the steps.
        dropout: of hidden states and attention.
        pairing: "next_sentence", or "sentence_order" as in ALBERT.
        masking: "tokens"; "words", whole ones; or "spans" of one to four words.
        rate: share of the tokens to mask.
        short_probability: share of the pairs that fill a random part of the row only.
        segmenter: what finds words in Chinese text for masking: "jieba", or "spaces" where they part the words.
        seed: decides the start, the pairs, the masks and their order.
        strategy: "none"; "mirrored", all GPUs of this machine; "multi_worker", as `TF_CONFIG` says; "tpu", untested.
            `batch_size` is that of all devices together.
        precision: "float32", "bfloat16" or "float16".
        accumulate: how many parts each device makes of its share of a batch, one after the other, to need less memory.
        rematerialize: whether encoder blocks are computed again in the backward pass, to need less memory.
        xla: whether the step is compiled by XLA; False leaves it to Keras, which does so on a single GPU.
        checkpoint_every: steps between checkpoints, in a folder beside `out` that is removed at the end; 0 for none.
        resume: whether to go on from these checkpoints, where there are some.
    """

    out: str
    corpus: str | tuple[str, ...] = PYTHON_DOCS
    vocab_size: int = 4096
    lowercase: bool = True
    hidden_size: int = 128
    num_hidden_layers: int = 2
    num_attention_heads: int = 2
    max_length: int = 64
    batch_size: int = 32
    minutes: float = 2.0
    steps: int = 0
    learning_rate: float = 1.5e-3
    dropout: float = 0.1
    pairing: str = "next_sentence"
    masking: str = "tokens"
    rate: float = 0.15
    short_probability: float = 0.1
    segmenter: str | None = None
    seed: int = 0
    strategy: str = "none"
    precision: str = "float32"
    accumulate: int = 1
    rematerialize: bool = False
    xla: bool = False
    checkpoint_every: int = 1000
    resume: bool = False

    def __post_init__(self):
        for name in ("vocab_size", "max_length", "batch_size", "minutes", "learning_rate", "accumulate"):
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be positive, got {getattr(self, name)}.")
        check_choice("pairing", self.pairing, TASKS)
        check_choice("masking", self.masking, MASKINGS)
        if not 0 < self.rate < 1:
            raise ValueError(f"`rate` must be between 0 and 1, got {self.rate}.")
        check_choice("strategy", self.strategy, STRATEGIES)
        check_choice("precision", self.precision, PRECISIONS)
        for name in ("steps", "checkpoint_every"):
            if getattr(self, name) < 0:
                raise ValueError(f"`{name}` must be at least 0, got {getattr(self, name)}.")
        if self.strategy == "multi_worker" and not self.steps:
            raise ValueError("`steps` must be given with `multi_worker`: each worker would count its own.")
        if self.resume and not self.checkpoint_every:
            raise ValueError("`resume` needs `checkpoint_every`, got 0.")


def run(config):
    """Trains a vocabulary and a BERT, evaluates on held-out documents, writes the model and its metrics.

    Returns:
        dict, as in `metrics.json`: "steps", "seconds", "vocab_size", "documents", "held_out_documents"; "before" and
        "after", the results on the held-out documents, NSP accuracy with its 95% interval; "curve", the same results
        and the training losses along the way; "traces", how often the steps were traced.
    """
    started = time.monotonic()
    devices = strategy(config.strategy)
    check_batch_size(config.batch_size, devices, config.accumulate)
    check_replaceable(config.out)
    so_far = earlier_run(config)
    if isinstance(config.corpus, str) and Path(config.corpus).is_dir():
        tokenizer, train, held, held_names = read_prepared(config)
    else:
        tokenizer, train, held, held_names = read_texts(config)
    held_batches = batches(config, held, tokenizer, None).cache()  # one epoch: the same pairs and masks each time

    seconds = 60 * config.minutes - (time.monotonic() - started)
    steps = config.steps or so_far.get("steps") or steps_in(seconds, config, devices, train, tokenizer)
    bundle, model = compiled(config, devices, tokenizer, steps)
    if is_chief(devices):
        print_decay(model)
    checkpoints, first = resumed(config, model, so_far)
    if not so_far:
        before = named(model.evaluate(held_batches, verbose=0, return_dict=True))
        so_far |= {"steps": steps, "before": before, "curve": []}

    def batches_from(step):
        return batches(config, train, tokenizer, steps, step)

    curve = so_far["curve"]
    fit(model, batches_from, first, steps, held_batches, curve, checkpoints, is_chief(devices))
    after = curve[-1]["held_out"]
    pairs = sum(len(y["nsp_logits"]) for _, y, _ in held_batches)
    metrics = {
        "config": dataclasses.asdict(config),
        "steps": steps,
        "vocab_size": tokenizer.vocab_size,
        "documents": len(train.document_starts) - 1,
        "held_out_documents": sorted(held_names),
        "held_out_pairs": pairs,
        "before": so_far["before"],
        "after": {**after, "nsp_interval": wilson_interval(after["nsp_accuracy"], pairs)},
        "curve": curve,
        "traces": model.traces,
        "seconds": round(time.monotonic() - started, 1),
    }
    if is_chief(devices):
        write_run(bundle, metrics, config.out)
        shutil.rmtree(folder_beside(config.out), ignore_errors=True)
    return metrics


def folder_beside(out):
    """Where the checkpoints of a run go."""
    return Path(out).with_name(f"{Path(out).name}.checkpoints")


def resumed(config, model, so_far):
    """Puts `model` where the newest checkpoint has it: the list of callbacks that write more, and the step to go on at.

    Args:
        so_far: dict that each checkpoint keeps as it then is.
    """
    if not config.checkpoint_every:
        return [], 0
    kept = {name: value for name, value in dataclasses.asdict(config).items() if name not in MAY_DIFFER}
    writer = Checkpoints(folder_beside(config.out), config.checkpoint_every, kept, place=lambda step: so_far)
    return [writer], writer.resume(model)


def earlier_run(config):
    """What the newest checkpoint says of the run that it is of: "steps", "before", "curve"; {} where there is none."""
    folder = folder_beside(config.out)
    found = newest_checkpoint(folder)
    if found is None:
        return {}
    if not config.resume:
        raise ValueError(f"{folder} holds checkpoints of a run that has not ended. Go on by `resume`, or remove it.")
    return found[0]["place"]


def read_texts(config):
    """Reads texts and trains a vocabulary: the tokenizer, documents to train on, held-out ones and their names."""
    train_documents, held_documents = corpus.hold_out(read_corpus(config.corpus))
    sentences = (sentence for document in train_documents.values() for sentence in document)
    tokenizer = Tokenizer(train_vocab(sentences, config.vocab_size, config.lowercase), lowercase=config.lowercase)
    segmenter = find_segmenter(config.segmenter)
    train = tokenize_documents(list(train_documents.values()), tokenizer, segmenter)
    held = tokenize_documents(list(held_documents.values()), tokenizer, segmenter)
    return tokenizer, train, held, list(held_documents)


def read_prepared(config):
    """The same from a folder that `prepare` wrote."""
    if config.segmenter is not None:
        raise ValueError("`segmenter` must not be set for a prepared corpus: its words are in it.")
    documents, names = read_shards(config.corpus)
    sizes = np.diff(documents.document_starts)
    train, held = corpus.hold_out({name: range(size) for name, size in zip(names, sizes, strict=True)})
    numbers = {name: number for number, name in enumerate(names)}
    parts = (select_documents(documents, [numbers[name] for name in part]) for part in (train, held))
    return Tokenizer.from_folder(config.corpus), *parts, list(held)


def read_corpus(name):
    """A dict from names of documents to their sentences."""
    if name == PYTHON_DOCS:
        return corpus.python_docs()
    return corpus.read_documents([name] if isinstance(name, str) else name)


def batches(config, documents, tokenizer, steps, start=0):
    """The batches of `steps` steps from `start` on, or of one epoch."""
    return pretraining_batches(
        documents,
        tokenizer,
        max_length=config.max_length,
        batch_size=config.batch_size,
        max_predictions=math.ceil(config.rate * config.max_length),
        seed=config.seed,
        steps=steps,
        start=start,
        pairing=config.pairing,
        masking=config.masking,
        rate=config.rate,
        short_probability=config.short_probability,
    )


def compiled(config, devices, tokenizer, steps):
    """A new model as a bundle, and the same prepared for `devices`, with its optimizer; it starts alike each time."""
    keras.utils.set_random_seed(config.seed)
    bert = BertConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        intermediate_size=4 * config.hidden_size,
        hidden_dropout_prob=config.dropout,
        attention_probs_dropout_prob=config.dropout,
        max_position_embeddings=config.max_length,
        pad_token_id=tokenizer.pad_id,
    )
    with devices.scope(), precision(config.precision):
        bundle = keras_bert.create(bert, tokenizer, "pretraining_model")
        model = prepare(bundle.model, config.accumulate, config.rematerialize)
        optimizer = adamw(warmup_linear(config.learning_rate, steps // 10, steps))
        model.compile(optimizer, jit_compile=config.xla or "auto", **pretraining_objectives())
    return bundle, model


def steps_in(seconds, config, devices, documents, tokenizer):
    """How many steps fit into the time, a multiple of `REPORTS`: tried with a model that is then thrown away.

    The number of steps is fixed before training, so that the learning rate reaches its end, and the run can be made
    again by giving `steps`.
    """
    started = time.monotonic()
    _, model = compiled(config, devices, tokenizer, TIMED_STEPS)
    stamps = []
    watch = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: stamps.append(time.monotonic()))
    model.fit(batches(config, documents, tokenizer, TIMED_STEPS), callbacks=[watch], shuffle=False, verbose=0)
    step = statistics.median(after - before for before, after in itertools.pairwise(stamps))
    start_up = 1.5 * (stamps[0] - started)  # to come: the real model is built and traced, for evaluation too
    left = seconds - (time.monotonic() - started) - start_up
    return max(1, int(left * TRAINING_SHARE / step / REPORTS)) * REPORTS


def fit(model, batches_from, first, steps, held_batches, curve, checkpoints, shown):
    """Trains from step `first` on, and adds to the curve.

    Args:
        batches_from: step -> the batches from it to the last one.
        curve: list of dicts with "step", training results and held-out results; a piece of the run gives one.
        checkpoints: list of callbacks; they see the curve with the piece in it.
        shown: whether this process has the progress bar.
    """
    length = steps // max(count for count in range(1, REPORTS + 1) if steps % count == 0)

    def add(_, logs):
        held = {name.removeprefix("val_"): value for name, value in logs.items() if name.startswith("val_")}
        curve.append({"step": length * (len(curve) + 1), "train": named(logs), "held_out": named(held)})

    titles = {"mlm_logits_cross_entropy": "mlm loss", "nsp_logits_accuracy": "nsp accuracy"}
    with ProgressBar(steps, "pretrain", titles, done=first, shown=shown) as bar:
        callbacks = [bar, keras.callbacks.LambdaCallback(on_epoch_end=add), *checkpoints]
        for start, pieces, piece in remaining(first, steps, length):
            model.fit(
                batches_from(start),
                epochs=pieces,
                steps_per_epoch=piece,
                validation_data=held_batches,
                callbacks=callbacks,
                shuffle=False,
                verbose=0,
            )


def remaining(first, steps, length):
    """What is left of a run in pieces of `length` steps: (first step, number of pieces, their steps).

    A piece that was interrupted comes first; its training results are those of the steps that were left.
    """
    left = -first % length
    if left:
        yield first, 1, left
    if first + left < steps:
        yield first + left, (steps - first - left) // length, length


def named(logs):
    """Keras's logs under short names."""
    return {f"{task}_{name}": round(logs[f"{task}_logits_{log}"], 4) for task, name, log in RESULTS}
