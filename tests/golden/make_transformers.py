"""Writes transformers.zip: tiny random models of genuine `transformers`, for what other test data lacks.

In a throw-away environment: pip install torch==2.13.0 transformers==5.24.0 && python tests/golden/make_transformers.py

A folder a model: what `save_pretrained` wrote, and expected.npz with `input/*` and `output/*`.
"""

import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch
import transformers

transformers.utils.logging.disable_progress_bar()

SIZES = {
    "vocab_size": 29,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 11,
    "max_position_embeddings": 17,
}
DISTILBERT = {
    "dim": 8,
    "n_layers": 2,
    "n_heads": 2,
    "hidden_dim": 11,
    **{key: SIZES[key] for key in ("vocab_size", "max_position_embeddings")},
}
CONFIGS = {
    "Bert": SIZES,
    "Roberta": {**SIZES, "type_vocab_size": 1},
    "DistilBert": DISTILBERT,
    "Albert": {**SIZES, "embedding_size": 5, "num_hidden_layers": 3},
    "Electra": {**SIZES, "embedding_size": 5},
}
CLASSIFIERS = ("SequenceClassification", "TokenClassification", "QuestionAnswering", "MultipleChoice")
MODELS = {
    "Bert": ("MaskedLM", "NextSentencePrediction", "MultipleChoice"),
    "Roberta": CLASSIFIERS,
    "DistilBert": CLASSIFIERS,
    "Albert": (*CLASSIFIERS, "MaskedLM"),
    "Electra": (*CLASSIFIERS, "MaskedLM", "PreTraining"),
}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
BINS = {"bin": {}, "bin_legacy": {"_use_new_zipfile_serialization": False}}
BATCH, CHOICES, LENGTH = 3, 2, 9


def main(path):
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for family, tasks in MODELS.items():
            for task in tasks:
                model = random_model(family, f"For{task}", len(task))
                model.save_pretrained(folder / f"{family}For{task}")
                expect(model, folder / f"{family}For{task}", task == "MultipleChoice")
        for name, dtype in DTYPES.items():
            model = random_model("Bert", "ForSequenceClassification", 1).to(dtype)
            model.save_pretrained(folder / name)
            expect(model.float(), folder / name)
        model = random_model("Bert", "ForSequenceClassification", 2)
        model.save_pretrained(folder / "sharded", max_shard_size="3KB")
        expect(model, folder / "sharded")
        for name, options in BINS.items():
            model = random_model("Bert", "ForSequenceClassification", 3)
            model.save_pretrained(folder / name)
            (folder / name / "model.safetensors").unlink()
            torch.save(model.state_dict(), folder / name / "pytorch_model.bin", **options)
            expect(model, folder / name)
        pack(folder, path)


def random_model(family, task, seed):
    """Every weight of order 0.3, gammas round 1."""
    torch.manual_seed(seed)
    labels = {} if task == "ForQuestionAnswering" else {"num_labels": 3}
    config = getattr(transformers, f"{family}Config")(**CONFIGS[family], **labels)
    model = getattr(transformers, f"{family}{task}")(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            gamma = "norm" in name.lower() and name.endswith("weight")
            weight.copy_(torch.randn(weight.shape) * 0.3 + (1.0 if gamma else 0.0))
    return model


def expect(model, folder, choices=False):
    rng = np.random.default_rng(0)
    shape = (BATCH, CHOICES, LENGTH) if choices else (BATCH, LENGTH)
    lengths = rng.integers(3, LENGTH + 1, shape[:-1])[..., None]
    mask = (np.arange(LENGTH) < lengths).astype("int64")
    ids = np.where(mask, rng.integers(2, SIZES["vocab_size"], shape), model.config.pad_token_id)
    inputs = {"input_ids": ids, "attention_mask": mask}
    if getattr(model.config, "type_vocab_size", 0) == 2:
        inputs["token_type_ids"] = rng.integers(0, 2, shape) * mask
    with torch.no_grad():
        outputs = model(**{name: torch.tensor(value) for name, value in inputs.items()})
    arrays = {f"input/{name}": value.astype("int32") for name, value in inputs.items()}
    arrays |= {f"output/{name}": value.float().numpy() for name, value in outputs.items()}
    np.savez_compressed(folder / "expected.npz", **arrays)


def pack(folder, path):
    """One archive whose bytes depend on the files alone."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                entry = zipfile.ZipInfo(file.relative_to(folder).as_posix())
                archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("transformers.zip"))
