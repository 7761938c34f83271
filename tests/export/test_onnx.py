import numpy as np
import onnx
import pytest

import keras_bert
from keras_bert.export import onnx as onnx_format
from tests.models import LABELS, VOCAB, randomize, tiny_bundle, tiny_config, tiny_features


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx")
    bundle = tiny_bundle("sequence_classifier")
    onnx_format.write(bundle, folder)
    return bundle, folder, onnx.load(folder / onnx_format.FILE)


def axes(values):
    """Sizes of inputs or outputs by name; a free one is its axis's name."""
    dims = {value.name: value.type.tensor_type.shape.dim for value in values}
    return {name: [axis.dim_param or axis.dim_value for axis in found] for name, found in dims.items()}


def test_logits_at_several_sizes(tmp_path):  # P39
    labels = ["a", "b", "c", "d"]
    config = tiny_config(max_position_embeddings=130, hidden_act="gelu")  # by erf
    bundle = keras_bert.create(config, None, "sequence_classifier", labels)
    randomize(bundle.model)
    onnx_format.write(bundle, tmp_path)
    run = onnx_format.load(tmp_path)
    for batch, length in ((1, 3), (4, 17), (2, 128)):
        features = tiny_features(bundle.config, batch, length)
        logits = run("", {name: ids.astype("int64") for name, ids in features.items()})["logits"]
        assert logits.shape == (batch, len(labels))
        np.testing.assert_allclose(logits, bundle.model.predict_on_batch(features), rtol=0, atol=1e-5)  # measured 1e-6


def test_inputs_and_outputs_have_named_axes(classifier):  # P38
    _, _, model = classifier

    free = ["batch", "sequence"]
    assert axes(model.graph.input) == {"token_ids": free, "segment_ids": free, "padding_mask": free}
    assert axes(model.graph.output) == {"logits": ["batch", len(LABELS)]}
    assert {value.type.tensor_type.elem_type for value in model.graph.input} == {onnx.TensorProto.INT64}
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 17)]
    onnx.checker.check_model(model, full_check=True)


def test_outputs_of_masked_positions(tmp_path):
    bundle = tiny_bundle("pretraining_model")
    onnx_format.write(bundle, tmp_path)
    model = onnx.load(tmp_path / onnx_format.FILE)
    assert axes(model.graph.output) == {"mlm_logits": ["batch", "masked", len(VOCAB)], "nsp_logits": ["batch", 2]}
    assert model.graph.input[-1].name == "masked_positions"
    onnx.checker.check_model(model, full_check=True)


def test_weights_are_initializers_under_their_names(classifier):
    bundle, folder, model = classifier
    found = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for weight in bundle.model.weights:
        np.testing.assert_array_equal(found[weight.path], weight.value.numpy())
    names = {path.name for path in folder.iterdir()}
    assert {"model.onnx", "labels.txt", "vocab.txt", "tokenizer.json"} <= names


@pytest.mark.parametrize("hidden_act", ["gelu", pytest.param("gelu_new", marks=pytest.mark.slow)])
def test_runtime_fuses_layer_norms_and_gelus(hidden_act, classifier, tmp_path):
    _, folder, _ = classifier
    if hidden_act != "gelu":
        folder = tmp_path
        bundle = keras_bert.create(tiny_config(hidden_act=hidden_act), head="sentence_embedder")
        onnx_format.write(bundle, folder)
    description = onnx_format.describe(folder)
    assert description["fused"]["LayerNormalization"] == 5  # the embeddings' and two a layer
    if hidden_act == "gelu":
        assert description["fused"]["Gelu"] == 2
    assert "GlobalAveragePool" not in description["operations"]


def test_tokenizers_reads_what_lies_beside(classifier):
    import tokenizers

    bundle, folder, _ = classifier
    twin = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    text = "hello worlds, a good film"
    assert twin.encode(text).ids == bundle.tokenizer.encode(text).ids


def test_foreign_operation_is_named():
    node = onnx.helper.make_node("Erfc", ["x"], ["y"])
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], []))
    with pytest.raises(ValueError, match=r"^ONNX must have only standard operations, got Erfc\.$"):
        onnx_format._check(model)


def test_a_model_is_written_as_protobuf_would(classifier):
    made = onnx.ModelProto()
    made.CopyFrom(classifier[2])
    sizes = (0, 1, 31, 5000, 600_000)  # lengths of one to three bytes
    made.graph.initializer.extend(onnx.numpy_helper.from_array(np.ones(size, "float32"), f"w{size}") for size in sizes)
    expected = onnx.ModelProto()
    expected.CopyFrom(made)
    written = b"".join(onnx_format._serialized(made))
    assert onnx.load_from_string(written) == expected
    assert len(written) == expected.ByteSize()
