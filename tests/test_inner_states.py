import keras
import numpy as np
import pytest

import keras_bert
from keras_bert.encoder import hidden_states
from keras_bert.inner_states import STATES, inner_states, relations
from tests.models import LABELS, model_features, randomize, tiny_bundle, tiny_config


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("head", [None, "sequence_classifier", "masked_language_model"])
def test_they_are_what_the_model_computes(head, shared):
    labels = LABELS if head == "sequence_classifier" else None
    bundle = keras_bert.create(tiny_config(num_hidden_layers=3, shared_layers=shared), head=head, labels=labels)
    model, features = randomize(bundle.model), model_features(bundle.model, bundle.config)
    made = {name: [np.asarray(x) for x in values] for name, values in inner_states(model)(features).items()}
    assert tuple(made) == STATES
    for one, other in zip(made["hidden_states"], hidden_states(model)(features), strict=True):
        assert np.array_equal(one, other)
    for i in range(3):
        attention = model.get_layer("layer_0" if shared else f"layer_{i}").attention
        values = made["values"][i].reshape(3, 7, 3, 4).transpose(0, 2, 1, 3)
        context = (made["attentions"][i] @ values).transpose(0, 2, 1, 3).reshape(3, 7, 12)
        expected = attention(made["hidden_states"][i], features["padding_mask"])
        np.testing.assert_allclose(np.asarray(attention.output_dense(context)), expected, atol=1e-5)  # measured 1e-6


def test_no_layer_runs_twice():
    """Beside the output of the model, they cost no second pass."""
    bundle = tiny_bundle("sequence_classifier")
    states = inner_states(bundle.model, ("hidden_states", "values"))
    both = keras.Model(bundle.model.input, {"logits": bundle.model.output, **states.output})
    calls = []
    block = bundle.model.get_layer("layer_0")
    call = block.attention.call
    block.attention.call = lambda *args, **kwargs: calls.append(1) or call(*args, **kwargs)
    both(model_features(bundle.model, bundle.config))
    assert len(calls) == 1


def test_relations_by_hand():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 5, 6)).astype("float32")
    made = np.asarray(relations(a, b, 2))
    for head in range(2):
        part = slice(3 * head, 3 * head + 3)
        np.testing.assert_allclose(made[1, head], a[1, :, part] @ b[1, :, part].T / 3**0.5, rtol=1e-5)


def test_models_without_an_encoder_of_their_own():
    with pytest.raises(ValueError, match=r"^`model` must have one encoder in its own graph, got 0: multiple_choice\.$"):
        inner_states(tiny_bundle("multiple_choice").model)
