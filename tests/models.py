"""Tiny models for tests: every size another number, every weight of order 0.3, so that a swapped or lost one shows."""

import numpy as np

import keras_bert

VOCAB = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the a b c hello world ##s ##ing good bad film , . ! ? "
    "你 好 商 务 大 床 房 é # ##a ##b ##c"
).split()
LABELS = ["negative", "neutral", "positive"]


def tiny_config(**changes):
    values = {
        "vocab_size": len(VOCAB),
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 20,
        "max_position_embeddings": 40,
    }
    return keras_bert.BertConfig(**{**values, **changes})


def randomize(model, seed=0):
    """Draws every weight, bias, beta at 0.3 and every gamma round 1."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        if "seed_generator" in weight.path:
            continue
        value = rng.normal(0.0, 0.3, weight.shape)
        weight.assign(1.0 + value if weight.path.endswith("gamma") else value)
    return model


def tiny_bundle(head, seed=0, **options):
    """A bundle of `head` with random weights and the small vocabulary above."""
    labels = LABELS if head is not None and keras_bert.HEADS[head].labelled else None
    bundle = keras_bert.create(tiny_config(), keras_bert.Tokenizer(VOCAB), head, labels, **options)
    randomize(bundle.model, seed)
    return bundle


def model_features(model, config):
    """Random ids for any head's model: masked positions and choices where it has them."""
    features = tiny_features(config)
    if model.name == "multiple_choice":
        features = {name: np.stack([value, value[::-1]], axis=1) for name, value in features.items()}
    if "masked_positions" in model.input:
        features["masked_positions"] = np.array([[1, 6], [0, 0], [0, 0]], "int32")
    return features


def tiny_features(config, batch=3, length=7, seed=0):
    """Random ids with padding at the end of all rows but the first."""
    rng = np.random.default_rng(seed)
    lengths = np.concatenate([[length], rng.integers(1, length + 1, batch - 1)])
    mask = (np.arange(length) < lengths[:, None]).astype("int32")
    return {
        "token_ids": (rng.integers(1, config.vocab_size, (batch, length)) * mask).astype("int32"),
        "segment_ids": (rng.integers(0, max(1, config.type_vocab_size), (batch, length)) * mask).astype("int32"),
        "padding_mask": mask,
    }
