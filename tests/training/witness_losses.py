"""Run by the interpreter of a witness, which does not know this package: trains with torch and `transformers`.

    python witness_losses.py FOLDER

FOLDER/TASK has a saved model in start, batches.npz (each array with the batches as its first axis) and steps.json; the
losses of all tasks go to FOLDER/losses.json.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
import transformers

OPENERS = {
    "classify": transformers.AutoModelForSequenceClassification,
    "several": transformers.AutoModelForSequenceClassification,
    "regression": transformers.AutoModelForSequenceClassification,
    "rerank": transformers.AutoModelForSequenceClassification,
    "tag": transformers.AutoModelForTokenClassification,
    "answer": transformers.AutoModelForQuestionAnswering,
    "choose": transformers.AutoModelForMultipleChoice,
    "embed": transformers.AutoModel,
    "cosine": transformers.AutoModel,
}


def pooled(model, inputs):
    """Mean vectors of the real tokens, of length 1: (B, N, T) inputs to (B, N, D)."""
    groups, count = inputs["input_ids"].shape[:2]
    flat = {name: value.flatten(0, 1) for name, value in inputs.items()}
    mask = flat["attention_mask"].unsqueeze(-1).float()
    x = model(**flat).last_hidden_state
    x = (x * mask).sum(1) / mask.sum(1)
    return F.normalize(x, dim=-1).unflatten(0, (groups, count))


def loss_of(task, model, inputs, y):
    if task == "embed":
        x = pooled(model, inputs)
        scores = 20.0 * x[:, 0] @ x[:, 1:].flatten(0, 1).T
        return F.cross_entropy(scores, torch.arange(len(x)) * (x.shape[1] - 1))
    if task == "cosine":
        x = pooled(model, inputs)
        return F.mse_loss((x[:, 0] * x[:, 1]).sum(-1), y.float())
    outputs = model(**inputs)
    if task == "answer":
        padding = inputs["attention_mask"] == 0
        start, end = (x.masked_fill(padding, -1e9) for x in (outputs.start_logits, outputs.end_logits))
        return (F.cross_entropy(start, y[:, 0].long()) + F.cross_entropy(end, y[:, 1].long())) / 2
    logits = outputs.logits
    if task == "tag":
        return F.cross_entropy(logits.flatten(0, 1), y.flatten().long(), ignore_index=-100)
    if task in ("classify", "choose"):
        return F.cross_entropy(logits, y.long())
    if task == "several":
        return F.binary_cross_entropy_with_logits(logits, y.float())
    score = logits.squeeze(-1)
    loss = F.mse_loss if task == "regression" else F.binary_cross_entropy_with_logits
    return loss(score, y.float())


def train(folder):
    task, settings = folder.name, json.loads((folder / "steps.json").read_text())
    options = {"add_pooling_layer": False} if OPENERS[task] is transformers.AutoModel else {}
    model = OPENERS[task].from_pretrained(folder / "start", **options).train()
    batches = dict(np.load(folder / "batches.npz"))
    decayed, others = [], []
    for parameter in model.parameters():
        (decayed if parameter.ndim >= 2 else others).append(parameter)
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=settings["peak"], eps=1e-6)
    warmup, total = settings["warmup"], settings["total"]

    def rate(step):
        return min((step + 1) / max(1, warmup), (total - step) / (total - warmup), 1.0)

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    losses = []
    for step in range(total):
        batch = {name: torch.tensor(values[step % len(values)]) for name, values in batches.items()}
        y = batch.pop("y")
        loss = loss_of(task, model, batch, y)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    root = Path(sys.argv[1])
    found = {folder.name: train(folder) for folder in sorted(root.iterdir()) if folder.is_dir()}
    (root / "losses.json").write_text(json.dumps(found))
