import keras
import pytest

import keras_bert
from keras_bert.freezing import freeze
from tests.models import tiny_bundle, tiny_config


@pytest.mark.parametrize("head", [None, "sequence_classifier", "multiple_choice"])
def test_the_lower_part_is_frozen_and_stays_so_in_a_keras_file(head, tmp_path):
    model = tiny_bundle(head).model
    freeze(model, 1)
    learning = [weight.path for weight in model.trainable_weights]
    frozen = ("token_embedding/", "embeddings/", "layer_0/")
    assert learning == [weight.path for weight in model.weights if not weight.path.startswith(frozen)]
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")  # Keras itself forgets it
    assert [weight.path for weight in again.trainable_weights] == learning


def test_inputs_of_a_fixed_length():
    """Keras then asks the layers of the encoder for shapes alone."""
    encoder = keras_bert.build_encoder(tiny_config())
    inputs = {name: keras.Input((16,), dtype="int32", name=name) for name in encoder.input}
    assert encoder(inputs)["sequence_output"].shape == (None, 16, 12)


def test_how_many_blocks():
    encoder = keras_bert.build_encoder(tiny_config())
    for blocks in (-1, 3):
        with pytest.raises(ValueError, match=rf"^`blocks` must be from 0 to 2, got {blocks}\.$"):
            freeze(encoder, blocks)
    shared = keras_bert.build_encoder(tiny_config(shared_layers=True))
    with pytest.raises(ValueError, match=r"^`blocks` must be 0 or 2 where all blocks are one, got 1\.$"):
        freeze(shared, 1)
    freeze(shared, 2)
    assert [weight.path for weight in shared.trainable_weights] == ["pooler/kernel", "pooler/bias"]
