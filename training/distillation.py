"""Distillation: a student learns the answers of a teacher, and what goes on inside it, by plain `fit`.

keras_bert/layers.py has the shape letters.
"""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np
from keras import ops, tree

from keras_bert.bundle import create
from keras_bert.checkpoint.assign import weights_from
from keras_bert.encoder import config_of
from keras_bert.inner_states import PROJECTED, inner_states, masked, relations
from keras_bert.training.losses import masked_cross_entropy

# What published methods compare, and with which weights; "labels" is the loss on the true answers.
METHODS = {
    "task": {"soft": 1.0, "labels": 1.0},  # Hinton et al. 2015
    "distilbert": {"soft": 5.0, "labels": 2.0, "cosine": 1.0},  # Sanh et al. 2019
    "tinybert": {"hidden": 1.0, "attention": 1.0},  # Jiao et al. 2020
    "minilm": {"attention_relations": 1.0, "value_relations": 1.0},  # Wang et al. 2020
}


def student_of(teacher, layers):
    """Gives a bundle with some of a teacher's blocks, and its embeddings and head, as they are.

    Args:
        teacher: a `Bundle`.
        layers: numbers of the teacher's blocks, from 1, one for each of the student's.

    Raises:
        ValueError: the teacher has no such block, or has adapters.
    """
    depth = teacher.config.num_hidden_layers
    if not layers or any(not 1 <= layer <= depth for layer in layers):
        raise ValueError(f"`layers` must be from 1 to {depth}, got {list(layers)}.")
    if teacher.config.lora is not None:
        raise ValueError("`teacher` must have no adapters. Use `lora.merge` first.")
    config = dataclasses.replace(teacher.config, num_hidden_layers=len(layers))
    weights = {weight.path: weight for weight in teacher.model.weights}

    def source(path):
        block, _, rest = path.partition("/")
        if config.shared_layers or not block.startswith("layer_"):
            return weights[path]
        return weights[f"layer_{layers[int(block.removeprefix('layer_'))] - 1}/{rest}"]

    with weights_from() as start:
        model = create(config, teacher.tokenizer, teacher.head, teacher.labels, **teacher.options).model
        found = {weight.path: source(weight.path) for weight in model.weights}
        start(model, {path: (value.shape, lambda value=value: np.asarray(value)) for path, value in found.items()})
    return dataclasses.replace(teacher, model=model, config=config, report=None)


def layer_map(student_layers, teacher_layers):
    """The teacher's block, from 1, for each of the student's: evenly spread, the last for the last."""
    return tuple(round(teacher_layers * (i + 1) / student_layers) for i in range(student_layers))


def distiller(student, teacher, weights, layers=None, temperature=2.0, relation_heads=None):
    """Gives a model of the student's layers whose outputs are what it is compared on with the teacher.

    model = distiller(student.model, teacher.model, METHODS["distilbert"])
    model.compile(adamw(5e-5), **distillation_objectives(METHODS["distilbert"]))
    model.fit(data.map(distillation_targets(METHODS["distilbert"])))

    The teacher runs inside the step, in inference mode, and is no part of the model: nothing changes it.

    Args:
        student, teacher: models with the same inputs and vocabulary.
        weights: dict from objective to weight, such as one of `METHODS`. The objectives:
            "labels": cross entropy with the true answers.
            "soft": divergence from the teacher's answers, which are logits of classes or of the vocabulary; both are
                softened by `temperature`, and the result is multiplied by its square.
            "cosine": 1 - cosine of the last hidden vectors.
            "hidden": squared distance of the hidden vectors of mapped blocks and of the embeddings; where the widths
                differ, behind one dense layer that is learnt and thrown away.
            "attention": squared distance of the scores of mapped blocks, before softmax.
            "attention_relations", "value_relations": divergence of queries to keys, and of values to values, in the
                student's last block and the one that it is mapped to.
        layers: the teacher's block, from 1, for each of the student's; `layer_map` by default.
        relation_heads: into how many heads the vectors are cut for relations; by default the teacher's number.

    Returns:
        A `keras.Model` with the student's inputs. Its output is a dict from objective to float32 values: (B, T), one a
        token; of "soft" one an answer; of "labels" the student's own output.

    Raises:
        ValueError: an objective is unknown, or does not fit the two models.

    Sources: METHODS, and Wang et al. 2021 (MiniLMv2) for the heads of relations. Differs: means are over real tokens
    only, and "attention" is the mean over heads.
    """
    unknown = weights.keys() - OBJECTIVES.keys() - {"labels"}
    if unknown or not weights:
        raise ValueError(f"`weights` must name some of labels, {', '.join(OBJECTIVES)}, got {list(weights)}.")
    compared = {name: OBJECTIVES[name] for name in weights if name != "labels"}
    one, other = config_of(student), config_of(teacher)
    layers = layers or layer_map(one.num_hidden_layers, other.num_hidden_layers)
    setup = Setup(one.num_attention_heads, relation_heads or other.num_attention_heads, temperature)
    _check(student, teacher, compared, layers, setup)
    own, asked = _states(student, compared), _states(teacher, compared)
    wanted = {name: _picked(asked, objective, layers) for name, objective in compared.items()}
    answered = Teacher(keras.Model(teacher.input, wanted), name="teacher")(student.input) if wanted else {}
    outputs = {"labels": _answers(student)} if "labels" in weights else {}
    for name, objective in compared.items():
        mine = _picked(own, objective, range(1, one.num_hidden_layers + 1))
        if name == "hidden" and one.hidden_size != other.hidden_size:
            widen = keras.layers.Dense(other.hidden_size, name="to_the_width_of_the_teacher")
            mine = {"hidden_states": [widen(x) for x in mine["hidden_states"]]}
        mask = student.get_layer("mask").output if objective.blocks else _answers(student)
        outputs[name] = Comparison(objective, setup, name=name)(mine, answered[name], mask)
    return keras.Model(student.input, outputs, name="distiller")


def distillation_objectives(weights):
    """Gives `loss` and `loss_weights` of `distiller(...).compile`; each loss is sum(w l) / sum(w)."""
    losses = {name: masked_cross_entropy(name) if name == "labels" else Given(name) for name in weights}
    return {"loss": losses, "loss_weights": dict(weights)}


def distillation_targets(weights):
    """Gives a function of (x, y, sample_weight or nothing) that makes a batch of `distiller`'s: for tf.data's `map`."""

    def targets(x, y, sample_weight=None):
        answers = ops.ones(ops.shape(y), "float32") if sample_weight is None else sample_weight
        tokens = ops.cast(x["padding_mask"], "float32")
        given = {name: tokens if name in OBJECTIVES and OBJECTIVES[name].blocks else answers for name in weights}
        return x, {name: y if name == "labels" else value for name, value in given.items()}, given

    return targets


@keras.saving.register_keras_serializable("keras_bert")
class Given(keras.losses.Loss):
    """What a model has computed itself, as a loss; the targets are not looked at."""

    def __init__(self, name="given", reduction="mean_with_sample_weight", **kwargs):
        super().__init__(name=name, reduction=reduction, **kwargs)

    def call(self, y_true, y_pred):
        return y_pred


class Teacher(keras.layers.Layer):
    """Asks a model in inference mode. Its weights are not this layer's, and get no gradient."""

    def __init__(self, model, **kwargs):
        super().__init__(**kwargs)
        self._model = lambda: model  # not an attribute, which Keras would take for a layer

    def call(self, features):
        return tree.map_structure(ops.stop_gradient, self._model()(features, training=False))

    def compute_output_spec(self, features):
        return tree.map_structure(lambda x: keras.KerasTensor(x.shape, dtype=x.dtype), self._model().output)


class Comparison(keras.layers.Layer):
    """The values of one objective, from the student's and the teacher's states, in float32."""

    def __init__(self, objective, setup, **kwargs):
        super().__init__(dtype="float32", **kwargs)
        self.objective, self.setup = objective, setup

    def call(self, own, asked, mask):
        return self.objective.compare(own, asked, mask, self.setup)

    def compute_output_spec(self, own, asked, mask):
        return keras.KerasTensor(mask.shape if self.objective.blocks else mask.shape[:-1], dtype="float32")


@dataclasses.dataclass(frozen=True)
class Setup:
    """Numbers that the objectives need: heads of attention, heads of relations, and the temperature of answers."""

    heads: int
    relation_heads: int
    temperature: float


@dataclasses.dataclass(frozen=True)
class Objective:
    """What is compared.

    Args:
        needs: names of inner states, or "answers".
        blocks: of which blocks: "mapped"; "last"; "hidden", the mapped ones and the embeddings; None for the answers.
        compare: (own states, the teacher's, mask (B, T), `Setup`) -> values; states are a dict of lists.
    """

    needs: tuple[str, ...]
    blocks: str | None
    compare: Callable


def _soft(own, asked, _, setup):
    temperature = setup.temperature
    return temperature**2 * _divergence(own["answers"][0] / temperature, asked["answers"][0] / temperature)


def _cosine(own, asked, _mask, _setup):
    one, other = own["hidden_states"][0], asked["hidden_states"][0]
    return 1.0 - ops.sum(ops.normalize(one, axis=-1) * ops.normalize(other, axis=-1), axis=-1)


def _hidden(own, asked, _mask, _setup):
    pairs = zip(own["hidden_states"], asked["hidden_states"], strict=True)
    return sum(ops.mean(ops.square(one - other), axis=-1) for one, other in pairs)


def _attention(own, asked, mask, setup):
    real = ops.cast(ops.expand_dims(ops.expand_dims(mask, 1), 1), "float32")  # (B, 1, 1, T)
    count = ops.maximum(ops.sum(real, axis=-1), 1.0)
    scores = [
        [relations(q, k, setup.heads) for q, k in zip(states["queries"], states["keys"], strict=True)]
        for states in (own, asked)
    ]
    distances = [ops.square(one - other) * real for one, other in zip(*scores, strict=True)]  # (B, N, T, T)
    return sum(ops.mean(ops.sum(distance, axis=-1) / count, axis=1) for distance in distances)


def _attention_relations(own, asked, mask, setup):
    return _relations_of("queries", "keys", own, asked, mask, setup)


def _value_relations(own, asked, mask, setup):
    return _relations_of("values", "values", own, asked, mask, setup)


def _relations_of(a, b, own, asked, mask, setup):
    scores = [masked(relations(x[a][0], x[b][0], setup.relation_heads), mask) for x in (own, asked)]  # (B, R, T, T)
    return ops.mean(_divergence(*scores), axis=1)


def _divergence(scores, of_teacher):
    """KL(teacher || student) over the last axis of two arrays of logits."""
    one, other = ops.log_softmax(scores, axis=-1), ops.log_softmax(of_teacher, axis=-1)
    return ops.sum(ops.exp(other) * (other - one), axis=-1)


OBJECTIVES = {
    "soft": Objective(("answers",), None, _soft),
    "cosine": Objective(("hidden_states",), "last", _cosine),
    "hidden": Objective(("hidden_states",), "hidden", _hidden),
    "attention": Objective(("queries", "keys"), "mapped", _attention),
    "attention_relations": Objective(("queries", "keys"), "last", _attention_relations),
    "value_relations": Objective(("values",), "last", _value_relations),
}


def _answers(model):
    """The logits of a model; of a pretraining model those of the masked tokens."""
    return model.output["mlm_logits"] if isinstance(model.output, dict) else model.output


def _states(model, compared):
    names = sorted({name for objective in compared.values() if objective.blocks for name in objective.needs})
    answers = {"answers": [_answers(model)]} if any(not objective.blocks for objective in compared.values()) else {}
    return answers | (inner_states(model, names).output if names else {})


def _picked(states, objective, layers):
    """The states that an objective compares; `layers` are numbers of blocks, from 1."""
    blocks = tuple(layers)
    blocks = {None: (0,), "last": blocks[-1:], "mapped": blocks, "hidden": (0, *blocks)}[objective.blocks]
    return {name: [states[name][i - (name in PROJECTED)] for i in blocks] for name in objective.needs}


def _check(student, teacher, compared, layers, setup):
    one, other = config_of(student), config_of(teacher)
    depth = other.num_hidden_layers
    if len(layers) != one.num_hidden_layers or any(not 1 <= layer <= depth for layer in layers):
        count = one.num_hidden_layers
        raise ValueError(f"`layers` must be {count} numbers from 1 to {depth}, got {list(layers)}.")
    if one.vocab_size != other.vocab_size:
        raise ValueError(f"Both must have one vocabulary, got {one.vocab_size} and {other.vocab_size} tokens.")
    if student.input.keys() != teacher.input.keys():
        raise ValueError(f"Both must have the same inputs, got {list(student.input)} and {list(teacher.input)}.")
    if "soft" in compared and _answers(student).shape[1:] != _answers(teacher).shape[1:]:
        raise ValueError(f"Both must give the same answers, got {_answers(student).shape}, {_answers(teacher).shape}.")
    if "cosine" in compared and one.hidden_size != other.hidden_size:
        raise ValueError(f"`cosine` needs one `hidden_size`, got {one.hidden_size} and {other.hidden_size}.")
    if "attention" in compared and one.num_attention_heads != other.num_attention_heads:
        heads = f"{one.num_attention_heads} and {other.num_attention_heads}"
        raise ValueError(f"`attention` needs one `num_attention_heads`, got {heads}; relations do not.")
    sizes = [config.hidden_size for config in (one, other)]
    if any(name.endswith("relations") for name in compared) and any(size % setup.relation_heads for size in sizes):
        raise ValueError(f"`relation_heads` must divide {sizes[0]} and {sizes[1]}, got {setup.relation_heads}.")
