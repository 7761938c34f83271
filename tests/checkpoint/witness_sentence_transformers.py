"""Run by the interpreter of a witness, which does not know this package: sentence-transformers reads and writes.

python witness_sentence_transformers.py read FOLDER    embeds texts.json with each model in FOLDER, to embeddings.npz
python witness_sentence_transformers.py write FOLDER   makes of each encoder in FOLDER a model in FOLDER/../written
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules


def read(top):
    texts = json.loads((top / "texts.json").read_text(encoding="utf-8"))
    models = {file.parent.name: SentenceTransformer(str(file.parent)) for file in sorted(top.glob("*/modules.json"))}
    embeddings = {name: model.encode(texts) for name, model in models.items()}
    lengths = {f"{name}/max_seq_length": model.max_seq_length for name, model in models.items()}
    np.savez(top / "embeddings.npz", **embeddings, **lengths)


def write(top):
    for file in sorted(top.glob("*/wanted.json")):
        wanted = json.loads(file.read_text(encoding="utf-8"))
        encoder = modules.Transformer(str(file.parent), max_seq_length=wanted["max_length"])
        width = encoder.get_embedding_dimension()
        parts = [encoder, modules.Pooling(width, pooling_mode=wanted["pooling"])]
        for units, activation, bias in wanted["dense"]:
            dense = modules.Dense(width, units, bias=bias, activation_function=getattr(torch.nn, activation)())
            parts.append(dense)
            width = units
        parts += [modules.Normalize()] if wanted["normalize"] else []
        torch.manual_seed(0)
        for part in parts[2:]:
            for weight in part.parameters():
                torch.nn.init.normal_(weight, std=0.3)
        SentenceTransformer(modules=parts).save(str(top.parent / "written" / file.parent.name))


if __name__ == "__main__":
    {"read": read, "write": write}[sys.argv[1]](Path(sys.argv[2]))
