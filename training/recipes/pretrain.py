"""Recipe: text in, a small BERT pretrained with masked words and next sentences out."""

import dataclasses
import itertools
import math
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
from keras_bert.training.losses import pretraining_objectives
from keras_bert.training.metrics import wilson_interval
from keras_bert.training.optimization import adamw, warmup_linear
from keras_bert.training.pairs import TASKS, tokenize_documents
from keras_bert.training.pretraining_batches import MASKINGS, check_choice, pretraining_batches
from keras_bert.training.progress import ProgressBar
from keras_bert.training.run_folder import write_run
from keras_bert.training.shards import read_shards, select_documents
from keras_bert.training.vocabulary import train_vocab
from keras_bert.training.words import find_segmenter

PYTHON_DOCS = "python-docs"
REPORTS = 10  # points of the curves
TIMED_STEPS = 12
TRAINING_SHARE = 0.9  # of the time left; the rest is for the held-out documents and for saving
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

    def __post_init__(self):
        for name in ("vocab_size", "max_length", "batch_size", "minutes", "learning_rate"):
            if getattr(self, name) <= 0:
                raise ValueError(f"`{name}` must be positive, got {getattr(self, name)}.")
        check_choice("pairing", self.pairing, TASKS)
        check_choice("masking", self.masking, MASKINGS)
        if not 0 < self.rate < 1:
            raise ValueError(f"`rate` must be between 0 and 1, got {self.rate}.")
        if self.steps < 0:
            raise ValueError(f"`steps` must be at least 0, got {self.steps}.")


def run(config):
    """Trains a vocabulary and a BERT, evaluates on held-out documents, writes the model and its metrics.

    Returns:
        dict, as in `metrics.json`: "steps", "seconds", "vocab_size", "documents", "held_out_documents"; "before" and
        "after", the results on the held-out documents, NSP accuracy with its 95% interval; "curve", the same results
        and the training losses along the way.
    """
    started = time.monotonic()
    check_replaceable(config.out)
    if isinstance(config.corpus, str) and Path(config.corpus).is_dir():
        tokenizer, train, held, held_names = read_prepared(config)
    else:
        tokenizer, train, held, held_names = read_texts(config)
    held_batches = batches(config, held, tokenizer, None).cache()  # one epoch: the same pairs and masks each time

    seconds = 60 * config.minutes - (time.monotonic() - started)
    steps = config.steps or steps_in(seconds, config, train, tokenizer)
    bundle = compiled(config, tokenizer, steps)
    before = bundle.model.evaluate(held_batches, verbose=0, return_dict=True)
    curve = fit(config, bundle.model, batches(config, train, tokenizer, steps), steps, held_batches)
    after = curve[-1]["held_out"]
    pairs = sum(len(y["nsp_logits"]) for _, y, _ in held_batches)
    metrics = {
        "config": dataclasses.asdict(config),
        "steps": steps,
        "vocab_size": tokenizer.vocab_size,
        "documents": len(train.document_starts) - 1,
        "held_out_documents": sorted(held_names),
        "held_out_pairs": pairs,
        "before": named(before),
        "after": {**after, "nsp_interval": wilson_interval(after["nsp_accuracy"], pairs)},
        "curve": curve,
        "seconds": round(time.monotonic() - started, 1),
    }
    write_run(bundle, metrics, config.out)
    return metrics


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


def batches(config, documents, tokenizer, steps):
    """The batches of `steps` steps, or of one epoch."""
    return pretraining_batches(
        documents,
        tokenizer,
        max_length=config.max_length,
        batch_size=config.batch_size,
        max_predictions=math.ceil(config.rate * config.max_length),
        seed=config.seed,
        steps=steps,
        pairing=config.pairing,
        masking=config.masking,
        rate=config.rate,
        short_probability=config.short_probability,
    )


def compiled(config, tokenizer, steps):
    """A new model with its optimizer, as a bundle; it starts alike each time."""
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
    bundle = keras_bert.create(bert, tokenizer, "pretraining_model")
    optimizer = adamw(warmup_linear(config.learning_rate, steps // 10, steps))
    optimizer.build(bundle.model.trainable_weights)  # otherwise `fit` traces its step twice
    bundle.model.compile(optimizer, **pretraining_objectives())
    return bundle


def steps_in(seconds, config, documents, tokenizer):
    """How many steps fit into the time, a multiple of `REPORTS`: tried with a model that is then thrown away.

    The number of steps is fixed before training, so that the learning rate reaches its end, and the run can be made
    again by giving `steps`.
    """
    started = time.monotonic()
    model = compiled(config, tokenizer, TIMED_STEPS).model
    stamps = []
    watch = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: stamps.append(time.monotonic()))
    model.fit(batches(config, documents, tokenizer, TIMED_STEPS), callbacks=[watch], shuffle=False, verbose=0)
    step = statistics.median(after - before for before, after in itertools.pairwise(stamps))
    start_up = 1.5 * (stamps[0] - started)  # to come: the real model is built and traced, for evaluation too
    left = seconds - (time.monotonic() - started) - start_up
    return max(1, int(left * TRAINING_SHARE / step / REPORTS)) * REPORTS


def fit(config, model, data, steps, held_batches):
    """Trains, and gives the curve: a list of dicts with "step", training results and held-out results."""
    reports = max(count for count in range(1, REPORTS + 1) if steps % count == 0)
    shown = {"mlm_logits_cross_entropy": "mlm loss", "nsp_logits_accuracy": "nsp accuracy"}
    with ProgressBar(steps, "pretrain", shown) as bar:
        history = model.fit(
            data,
            epochs=reports,
            steps_per_epoch=steps // reports,
            validation_data=held_batches,
            callbacks=[bar],
            shuffle=False,
            verbose=0,
        ).history
    return [
        {
            "step": (report + 1) * steps // reports,
            "train": named({name: values[report] for name, values in history.items()}),
            "held_out": named({name.removeprefix("val_"): v[report] for name, v in history.items() if "val_" in name}),
        }
        for report in range(reports)
    ]


def named(logs):
    """Keras's logs under short names."""
    return {f"{task}_{name}": round(logs[f"{task}_logits_{log}"], 4) for task, name, log in RESULTS}
