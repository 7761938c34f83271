"""What a pretraining run trains: the models that are saved, and the one that `fit` sees, which shares their layers."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import keras_bert
from keras_bert.added_tokens import add_tokens
from keras_bert.bundle import Bundle
from keras_bert.checkpoint import sources
from keras_bert.config import BertConfig
from keras_bert.tokenization.tokenizer import Tokenizer
from keras_bert.training.corpus import read_lines
from keras_bert.training.electra import (
    electra,
    electra_objectives,
    electra_targets,
    generator_config,
    with_token_embedding,
)
from keras_bert.training.losses import pretraining_objectives
from keras_bert.training.masking import maskable_table

PAIRS, MASKED, DETECTOR = "pretraining_model", "masked_language_model", "replaced_token_detector"
GENERATOR = "generator"  # folder of ELECTRA's other half, inside that of the detector


@dataclasses.dataclass(frozen=True)
class Pretrained:
    """Models to save, and what `fit` needs.

    Args:
        bundle: what is saved; generator: what is saved beside it, or None.
        model: takes what `targets` makes of a batch, and has a dict of outputs.
        tasks: the names of its outputs without "_logits".
        objectives: arguments of `compile`.
        targets: (x, y, sample_weight) of `pretraining_pipeline` -> those of `model`.
    """

    bundle: Bundle
    model: keras.Model
    tasks: tuple[str, ...]
    objectives: dict
    targets: Callable
    generator: Bundle | None = None


def bundles(config, tokenizer):
    """Gives the models that will be saved, as they start: the bundle, and ELECTRA's generator or None.

    Args:
        config: the recipe's settings, a `Pretrain`.
        tokenizer: that of a new model; one that is loaded has its own.
    """
    longest = max(config.lengths)
    if config.model and config.replaces:
        return loaded_electra(config.model, longest)
    if config.model:
        words = read_words(config.new_words) if config.new_words else ()
        return loaded_bundle(config.model, config.pairs, longest, words), None
    bundle = fresh_bundle(
        tokenizer,
        DETECTOR if config.replaces else PAIRS if config.pairs else MASKED,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        intermediate_size=4 * config.hidden_size,
        hidden_dropout_prob=config.dropout,
        attention_probs_dropout_prob=config.dropout,
        max_position_embeddings=longest,
    )
    return bundle, fresh_generator(bundle, config.generator_share) if config.replaces else None


def fresh_bundle(tokenizer, head, **sizes):
    """Gives a model with fresh weights for one of the three heads; `sizes` are fields of its config."""
    family = {
        PAIRS: {},
        MASKED: {"pooler": False},
        DETECTOR: {"model_type": "electra", "pooler": False, "classifier_act": "gelu"},
    }
    config = BertConfig(vocab_size=tokenizer.vocab_size, pad_token_id=tokenizer.pad_id, **family[head], **sizes)
    return keras_bert.create(config, tokenizer, head)


def fresh_generator(detector, share):
    """Gives the generator for a detector that starts anew."""
    return keras_bert.create(generator_config(detector.config, share), detector.tokenizer, MASKED)


def loaded_bundle(source, with_pairs, length, new_words=()):
    """Loads a model to pretrain further, with the heads that it has.

    A model that was trained with pairs keeps that head, also where it is not trained. One without a head for masked
    words gets a fresh one. A position table that is shorter than the rows grows.

    Args:
        source: what `keras_bert.load` takes.
        with_pairs: whether the head for pairs is needed.
        length: T.
        new_words: list of str to add to the vocabulary.

    Raises:
        ValueError: its tokenizer is no WordPiece one, or it has a head for masked words but none for pairs.
    """
    found = sources.read(source)
    heads = sources.heads_in(found)
    positions = None if length <= found.config.max_length else length + found.config.position_offset
    if PAIRS in heads:
        head = {"head": PAIRS}
    elif MASKED in heads and with_pairs:
        raise ValueError(
            f"{source} has no head for pairs, which `pairing` needs. Set it to full_sentences or single_documents."
        )
    elif MASKED in heads:
        head = {"head": MASKED}
    else:
        head = {"new_head": PAIRS if with_pairs else MASKED}
    bundle = keras_bert.load(source, max_position_embeddings=positions, **head)
    return _with_words(bundle, source, new_words)


def loaded_electra(source, length):
    """Loads what an earlier run with replaced tokens left: the detector, and the generator in the folder inside.

    Raises:
        ValueError: there is no generator.
    """
    folder = Path(source) / GENERATOR
    if not folder.is_dir():
        raise ValueError(f"{source} must hold the generator in the folder {GENERATOR}, to go on with replaced tokens.")
    found = sources.read(source)
    positions = None if length <= found.config.max_length else length
    options = {"max_position_embeddings": positions}
    return keras_bert.load(source, head=DETECTOR, **options), keras_bert.load(folder, head=MASKED, **options)


def read_words(path):
    """Reads new words, one a line, in their order."""
    words = [word for word in (line.strip() for line in read_lines(path)) if word]
    if not words:
        raise ValueError(f"{path} must hold a word a line, got none.")
    return words


def _with_words(bundle, source, new_words):
    if not isinstance(bundle.tokenizer, Tokenizer):
        kind = "none" if bundle.tokenizer is None else type(bundle.tokenizer).__name__
        raise ValueError(f"{source} must have a WordPiece vocabulary to be pretrained further, got {kind}.")
    return add_tokens(bundle, new_words) if new_words else bundle


def masked_words(bundle, with_pairs, packed):
    """Gives what trains on masked words, and on pairs where the batches have them."""
    outputs = bundle.model.output if isinstance(bundle.model.output, dict) else {"mlm_logits": bundle.model.output}
    tasks = ("mlm", "nsp") if with_pairs else ("mlm",)
    names = [f"{task}_logits" for task in tasks]
    # The part that the tasks need: what else the bundle has is not trained, nor decayed.
    model = keras.Model(bundle.model.input, {name: outputs[name] for name in names}, name=bundle.model.name)
    if packed:
        model = keras_bert.packed_model(model)
    return Pretrained(bundle, model, tasks, pretraining_objectives(names), _as_it_is if with_pairs else _by_name)


def replaced_tokens_of(detector, generator, seed):
    """Gives what trains ELECTRA's two halves, which share the token embedding from here on."""
    tied = dataclasses.replace(generator, model=with_token_embedding(generator.model, detector.model))
    tokenizer, rows = detector.tokenizer, detector.config.vocab_size
    allowed = np.zeros(rows, bool)
    allowed[: tokenizer.vocab_size] = maskable_table(tokenizer.vocab, tokenizer.special_ids)
    model = electra(tied.model, detector.model, seed=seed, allowed=allowed)
    return Pretrained(detector, model, ("mlm", "detector"), electra_objectives(), electra_targets, tied)


def _as_it_is(x, y, weights):
    return x, y, weights


def _by_name(x, y, weights):
    return x, {"mlm_logits": y}, {"mlm_logits": weights}


def count_tokens(x, *_):
    """Real tokens of a batch."""
    if "sequence_ids" in x:
        return tf.math.count_nonzero(x["sequence_ids"], dtype=tf.float32)
    return tf.reduce_sum(tf.cast(x["padding_mask"], tf.float32))


def count_masked(_x, _y, weights):
    """Tokens that are predicted."""
    return tf.reduce_sum(weights["mlm_logits"])


WATCHED = {"tokens": count_tokens, "masked_tokens": count_masked}
