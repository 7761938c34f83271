"""Configs: names, presets, and one sentence for what does not fit."""

import pytest

from keras_bert.checkpoint.huggingface import foreign_config
from keras_bert.config import BertConfig


def test_round_trip():
    config = BertConfig.preset("bert_tiny", vocab_size=23)
    assert BertConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"hidden_size": 770}, "`hidden_size` must be a multiple of `num_attention_heads`, got 770 and 12."),
        ({"num_hidden_layers": 0}, "`num_hidden_layers` must be a positive integer, got 0."),
        ({"vocab_size": True}, "`vocab_size` must be a positive integer, got True."),
        ({"hidden_dropout_prob": 1.0}, "`hidden_dropout_prob` must be at least 0 and below 1, got 1.0."),
        ({"layer_norm_eps": 0}, "`layer_norm_eps` must be a positive number, got 0."),
        ({"hidden_act": "swish"}, "`hidden_act` must be one of gelu, gelu_new, gelu_pytorch_tanh, relu, got 'swish'."),
        ({"pad_token_id": 30}, "`pad_token_id` must be an id of the vocabulary (0 to 29), got 30."),
        ({"hiden_size": 12}, "Unknown key `hiden_size` in run.json. Did you mean `hidden_size`?"),
    ],
)
def test_bad_values(changes, sentence):
    with pytest.raises(ValueError) as error:
        BertConfig.from_dict({"vocab_size": 30, **changes}, source="run.json")
    assert str(error.value) == sentence


def test_missing_key():
    with pytest.raises(ValueError, match=r"^`vocab_size` is missing in run.json.$"):
        BertConfig.from_dict({"hidden_size": 12}, source="run.json")


def test_unknown_preset():
    with pytest.raises(ValueError, match="Unknown preset `bert_bas`. Did you mean `bert_base`?"):
        BertConfig.preset("bert_bas")


def test_foreign_config_takes_defaults_and_names_what_it_ignores():
    values = {"vocab_size": 30, "hidden_size": 24, "attn_implementation_of_mine": 1, "use_cache": True}
    config, ignored = foreign_config(values, pooler=False, source="config.json")
    assert config == BertConfig(30, 24, pooler=False)
    assert ignored == ["attn_implementation_of_mine"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"hidden_sizes": 24}, "Unknown key `hidden_sizes` in config.json. Did you mean `hidden_size`?"),
        (
            {"position_embedding_type": "relative_key"},
            '`position_embedding_type` must be "absolute" in config.json, got "relative_key".',
        ),
        ({"is_decoder": True}, "`is_decoder` must be false in config.json, got true."),
    ],
)
def test_foreign_config_refuses_what_would_change_the_model(changes, sentence):
    with pytest.raises(ValueError) as error:
        foreign_config({"vocab_size": 30, **changes}, pooler=True, source="config.json")
    assert str(error.value) == sentence
