"""The naming styles of the world: one random model under other names gives identical outputs."""

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

import keras_bert
from keras_bert.checkpoint import google, tensorflow_files
from tests.models import VOCAB, randomize, tiny_bundle, tiny_config, tiny_features
from tests.reference import Reference


def torch_file(rename, more=()):
    def write(folder, bundle):
        keras_bert.save(bundle, folder)
        file = folder / "model.safetensors"
        arrays = {rename(name): array for name, array in load_file(file).items()}
        save_file({**arrays, **dict(more)}, file)

    return write


def google_file(rename, slots=False):
    """Names of Google's checkpoints; the config's gelu is then the tanh form."""

    def write(folder, bundle):
        google.write(bundle, folder)
        prefix = next(folder.glob("*.index")).with_suffix("")
        reader = tf.train.load_checkpoint(str(prefix))
        arrays = {rename(name): reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
        if slots:
            arrays |= {f"{name}/adam_{m}": array * 0.1 for name, array in dict(arrays).items() for m in "mv"}
            arrays["global_step"] = np.array(7)
        tensorflow_files.write(prefix, arrays)

    return write


def old_norms(name):
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


STYLES = {
    "Google": google_file(str),
    "module/bert": google_file(lambda name: f"module/{name}"),
    "optimizer slots": google_file(str, slots=True),
    "gamma and beta": torch_file(old_norms),
    "no bert.": torch_file(lambda name: name.removeprefix("bert."), {"embeddings.position_ids": np.arange(40)}.items()),
    "layer_normalization": google_file(lambda name: name.replace("LayerNorm", "layer_normalization")),
    "numbered": torch_file(lambda name: old_norms(name).replace("LayerNorm", "layer_normalization_2")),
    "module.bert.": torch_file(lambda name: f"module.{name}"),
    "model.bert.": torch_file(lambda name: f"model.{name}"),
}


@pytest.mark.parametrize("style", STYLES)
def test_styles_give_identical_outputs(style, tmp_path):  # P14
    bundle = keras_bert.create(tiny_config(hidden_act="gelu_new"), keras_bert.Tokenizer(VOCAB), "pretraining_model")
    randomize(bundle.model)
    STYLES[style](tmp_path / "model", bundle)
    again = keras_bert.load(tmp_path / "model")
    assert (again.head, again.report.fresh, again.report.unused) == ("pretraining_model", [], [])
    features = {**tiny_features(bundle.config), "masked_positions": np.array([[1, 2], [0, 0], [0, 0]], "int32")}
    ours, theirs = bundle.model(features), again.model(features)
    reference = Reference(bundle.config, {weight.path: weight.value for weight in bundle.model.weights})
    for name in ours:
        assert np.array_equal(ours[name], theirs[name])
        assert np.abs(np.asarray(ours[name]) - getattr(reference, name)(features)).max() <= 1e-5


def test_the_nearest_names_are_told(tmp_path):  # P14
    torch_file(lambda name: name.replace("intermediate", "intermediat"))(tmp_path / "model", tiny_bundle(None))
    with pytest.raises(ValueError) as error:
        keras_bert.load(tmp_path / "model")
    text = str(error.value).replace(str(tmp_path / "model"), "FOLDER")
    head, near = text.split("The nearest names to encoder.layer.0.intermediat.dense.bias: ")
    assert head == (
        "FOLDER holds 4 weights that no part of this model has: encoder.layer.0.intermediat.dense.bias, "
        "encoder.layer.0.intermediat.dense.weight, encoder.layer.1.intermediat.dense.bias, "
        "encoder.layer.1.intermediat.dense.weight. "
    )
    assert near.split(", ")[0] == "encoder.layer.0.intermediate.dense.bias"
    assert len(near.split(", ")) == 5
