"""The one description of an encoder: its sizes and its choices, under the names of `config.json`."""

import dataclasses
import difflib

ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu")


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """Sizes and choices of a BERT encoder; field names are the published ones.

    Args:
        vocab_size: rows of the token embedding.
        hidden_act: "gelu" is the exact one (by erf); "gelu_new" and "gelu_pytorch_tanh" are the tanh form,
            which Google's TF1 code calls "gelu"; "relu".
        pad_token_id: the id that `padding_mask` is made from where it is not given.
        pooler: whether the encoder has the dense tanh layer on [CLS] that gives `pooled_output`.

    Raises:
        ValueError: a size is not a positive integer, a rate is not in [0, 1), or the values do not fit together.
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0
    pooler: bool = True

    def __post_init__(self):
        for name in SIZES:
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ValueError(f"`{name}` must be a positive integer, got {value!r}.")
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 <= value < 1:
                raise ValueError(f"`{name}` must be at least 0 and below 1, got {value!r}.")
        for name in ("initializer_range", "layer_norm_eps"):
            value = getattr(self, name)
            if not _is_number(value) or value <= 0:
                raise ValueError(f"`{name}` must be a positive number, got {value!r}.")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                "`hidden_size` must be a multiple of `num_attention_heads`, "
                f"got {self.hidden_size} and {self.num_attention_heads}."
            )
        if self.hidden_act not in ACTIVATIONS:
            raise ValueError(f"`hidden_act` must be one of {', '.join(ACTIVATIONS)}, got {self.hidden_act!r}.")
        if type(self.pad_token_id) is not int or not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(
                f"`pad_token_id` must be an id of the vocabulary (0 to {self.vocab_size - 1}), "
                f"got {self.pad_token_id!r}."
            )
        if type(self.pooler) is not bool:
            raise ValueError(f"`pooler` must be true or false, got {self.pooler!r}.")

    @classmethod
    def preset(cls, name, **changes):
        """Gives the config of a published model by name, with fields changed by keyword.

        Args:
            name: one of `PRESETS`: "bert_base", "bert_large", "bert_tiny" ...
            changes: fields that differ, such as `vocab_size=21128` for Chinese.
        """
        if name not in PRESETS:
            raise ValueError(f"Unknown preset `{name}`.{did_you_mean(name, PRESETS)} Known: {', '.join(PRESETS)}.")
        return cls.from_dict({"vocab_size": 30522, **PRESETS[name], **changes}, source=f"the preset {name}")

    @classmethod
    def from_dict(cls, values, source="the config"):
        """Makes a config from our own files, strictly: every key must be a field, and `vocab_size` must be there."""
        fields = [field.name for field in dataclasses.fields(cls)]
        for key in values:
            if key not in fields:
                raise ValueError(f"Unknown key `{key}` in {source}.{did_you_mean(key, fields)}")
        if "vocab_size" not in values:
            raise ValueError(f"`vocab_size` is missing in {source}.")
        return cls(**values)

    def to_dict(self):
        """Gives the fields as a plain dict, in their order."""
        return dataclasses.asdict(self)


SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)

PRESETS = {
    "bert_tiny": {
        "num_hidden_layers": 2,
        "hidden_size": 128,
        "num_attention_heads": 2,
        "intermediate_size": 512,
    },
    "bert_mini": {
        "num_hidden_layers": 4,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
    },
    "bert_small": {
        "num_hidden_layers": 4,
        "hidden_size": 512,
        "num_attention_heads": 8,
        "intermediate_size": 2048,
    },
    "bert_medium": {
        "num_hidden_layers": 8,
        "hidden_size": 512,
        "num_attention_heads": 8,
        "intermediate_size": 2048,
    },
    "bert_base": {},
    "bert_large": {
        "num_hidden_layers": 24,
        "hidden_size": 1024,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
    "minilm": {
        "num_hidden_layers": 6,
        "hidden_size": 384,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    },
}


def did_you_mean(key, known):
    """Gives " Did you mean `x`?" for the known name nearest to `key`, or an empty string."""
    near = difflib.get_close_matches(key, list(known), n=1, cutoff=0.6)
    return f" Did you mean `{near[0]}`?" if near else ""


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)
