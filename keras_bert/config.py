"""The one description of an encoder: its sizes and its choices, under the names of `config.json`."""

import dataclasses
import difflib

VERSION = 1  # of the keys in `.keras` files
FAMILIES = ("bert", "roberta", "distilbert", "albert", "electra")
CLASSIFIER_ACTIVATIONS = ("tanh", "gelu", "relu")
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu")
PROJECTIONS = ("query", "key", "value", "attention_output", "intermediate", "output")


@dataclasses.dataclass(frozen=True)
class Lora:
    """Adapters of low rank beside the frozen dense layers of an encoder's blocks.

    Args:
        rank: columns of A and rows of B.
        alpha: an adapter's output is multiplied by `alpha` / `rank`.
        dropout: of the adapters' input.
        targets: which dense layers have one, of `PROJECTIONS`.

    Source: Hu et al. 2021.
    """

    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    targets: tuple[str, ...] = ("query", "value")

    def __post_init__(self):
        object.__setattr__(self, "targets", tuple(self.targets))  # files have a list
        if type(self.rank) is not int or self.rank < 1:
            raise ValueError(f"`rank` must be a positive integer, got {self.rank!r}.")
        if not _is_number(self.alpha) or self.alpha <= 0:
            raise ValueError(f"`alpha` must be a positive number, got {self.alpha!r}.")
        if not _is_number(self.dropout) or not 0 <= self.dropout < 1:
            raise ValueError(f"`dropout` must be at least 0 and below 1, got {self.dropout!r}.")
        if not self.targets or not set(self.targets) <= set(PROJECTIONS):
            raise ValueError(f"`targets` must be some of {', '.join(PROJECTIONS)}, got {list(self.targets)!r}.")

    @property
    def scale(self):
        """What an adapter's output is multiplied by."""
        return self.alpha / self.rank


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """Sizes and choices of a BERT encoder; field names are the published ones.

    Args:
        vocab_size: rows of the token embedding.
        hidden_act: "gelu" is the exact one (by erf); "gelu_new" and "gelu_pytorch_tanh" are the tanh form,
            which Google's TF1 code calls "gelu"; "relu".
        type_vocab_size: rows of the segment embedding; 0 for none (DistilBERT).
        pad_token_id: the id that `padding_mask` is made from where it is not given.
        pooler: whether the encoder has the dense tanh layer on [CLS] that gives `pooled_output`.
        model_type: the family, which decides under which names a checkpoint is saved, and nothing else.
        embedding_size: width of the embeddings where a dense layer takes them to `hidden_size` (ALBERT, ELECTRA);
            None where they have that width and there is no such layer.
        shared_layers: whether all blocks are one (ALBERT).
        position_offset: row of the first token in the position embedding: `pad_token_id` + 1 for RoBERTa, whose 514
            rows are thus 512 usable ones.
        classifier_act: activation of the dense layer that a classifier has by itself, in place of the pooler: "tanh"
            (RoBERTa), "gelu" (ELECTRA), "relu" (DistilBERT); None for the pooler (BERT, ALBERT).
        lora: a `Lora`: all weights of the encoder but its adapters and the pooler are then frozen; None for neither.

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
    model_type: str = "bert"
    embedding_size: int | None = None
    shared_layers: bool = False
    position_offset: int = 0
    classifier_act: str | None = None
    lora: Lora | None = None

    def __post_init__(self):
        if isinstance(self.lora, dict):
            object.__setattr__(self, "lora", Lora(**self.lora))
        for name in SIZES:
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ValueError(f"`{name}` must be a positive integer, got {value!r}.")
        for name in ("type_vocab_size", "position_offset"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise ValueError(f"`{name}` must be an integer of at least 0, got {value!r}.")
        if self.embedding_size is not None and (type(self.embedding_size) is not int or self.embedding_size < 1):
            raise ValueError(f"`embedding_size` must be a positive integer or None, got {self.embedding_size!r}.")
        if self.position_offset >= self.max_position_embeddings:
            raise ValueError(
                "`position_offset` must be below `max_position_embeddings`, "
                f"got {self.position_offset} and {self.max_position_embeddings}."
            )
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
        for name in ("pooler", "shared_layers"):
            if type(getattr(self, name)) is not bool:
                raise ValueError(f"`{name}` must be true or false, got {getattr(self, name)!r}.")
        for name, known in (("model_type", FAMILIES), ("classifier_act", (*CLASSIFIER_ACTIVATIONS, None))):
            if getattr(self, name) not in known:
                raise ValueError(f"`{name}` must be one of {', '.join(map(str, known))}, got {getattr(self, name)!r}.")

    @property
    def max_length(self):
        """The most tokens that a text can have."""
        return self.max_position_embeddings - self.position_offset

    @property
    def embedding_width(self):
        """The width of the embeddings: `embedding_size`, or `hidden_size` where there is none."""
        return self.embedding_size or self.hidden_size

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
        """Makes a config from our own files, strictly: every key must be a field, and `vocab_size` must be there.

        A `version` says by which rules it was written; files of the first releases have none.
        """
        values = dict(values)
        version = values.pop("version", VERSION)
        if version != VERSION:  # one that changes a key gives the old ones their new names here
            raise ValueError(
                f"`version` in {source} must be {VERSION}, got {version!r}. A newer keras3-bert wrote it: update yours."
            )
        fields = [field.name for field in dataclasses.fields(cls)]
        for key in values:
            if key not in fields:
                raise ValueError(f"Unknown key `{key}` in {source}.{did_you_mean(key, fields)}")
        if "vocab_size" not in values:
            raise ValueError(f"`vocab_size` is missing in {source}.")
        return cls(**values)

    def to_dict(self):
        """Gives what `from_dict` takes, for files: the version, and the fields in their order."""
        return {"version": VERSION, **dataclasses.asdict(self)}


SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)

_LARGE = {"num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096}
_ROBERTA = {
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "pad_token_id": 1,
    "position_offset": 2,
    "classifier_act": "tanh",
}
_ALBERT = {
    "vocab_size": 30000,
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "embedding_size": 128,
    "shared_layers": True,
}
_ELECTRA = {"pooler": False, "classifier_act": "gelu"}

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
    "bert_large": _LARGE,
    "minilm": {
        "num_hidden_layers": 6,
        "hidden_size": 384,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    },
    "distilbert_base": {
        "model_type": "distilbert",
        "num_hidden_layers": 6,
        "type_vocab_size": 0,
        "pooler": False,
        "classifier_act": "relu",
    },
    "roberta_base": {"model_type": "roberta", **_ROBERTA},
    "roberta_large": {"model_type": "roberta", **_ROBERTA, **_LARGE},
    "albert_base": {"model_type": "albert", **_ALBERT},
    "albert_large": {"model_type": "albert", **_ALBERT, **_LARGE},
    "albert_xlarge": {
        "model_type": "albert",
        **_ALBERT,
        "num_hidden_layers": 24,
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "intermediate_size": 8192,
    },
    "albert_xxlarge": {
        "model_type": "albert",
        **_ALBERT,
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "intermediate_size": 16384,
    },
    "electra_small": {
        "model_type": "electra",
        **_ELECTRA,
        "embedding_size": 128,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
    },
    "electra_base": {"model_type": "electra", **_ELECTRA},
    "electra_large": {"model_type": "electra", **_ELECTRA, **_LARGE},
}


def did_you_mean(key, known):
    """Gives " Did you mean `x`?" for the known name nearest to `key`, or an empty string."""
    near = difflib.get_close_matches(key, list(known), n=1, cutoff=0.6)
    return f" Did you mean `{near[0]}`?" if near else ""


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)
