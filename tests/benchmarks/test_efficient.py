"""The benchmark of LoRA and distillation runs on a toy, and goes on from what is there."""

import pytest

import keras_bert
from benchmarks import efficient
from tests.models import VOCAB, tiny_config


@pytest.mark.slow
def test_on_a_toy(tmp_path, monkeypatch, capsys):
    rows = ["sentence\tlabel", *["a good film\t1", "a bad film\t0"] * 6]
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text("\n".join(rows) + "\n")
    monkeypatch.setattr(efficient, "DATA", tmp_path)
    bundle = keras_bert.create(tiny_config(max_position_embeddings=64), keras_bert.Tokenizer(VOCAB))
    keras_bert.save(bundle, tmp_path / "model")
    words = ["--model", str(tmp_path / "model"), "--rows", "8", "--epochs", "1", "--work", str(tmp_path / "work")]
    efficient.main([*words, "--out", str(tmp_path / "results.md")])
    found = (tmp_path / "results.md").read_text()
    assert found.count("accuracy on dev") == 1
    assert all(name in found for name in ("full fine-tuning", "LoRA", "distilled"))
    assert (tmp_path / "work" / "lora" / "adapter" / "adapter_model.safetensors").is_file()
    assert keras_bert.load(tmp_path / "work" / "distilled").config.num_hidden_layers == 1
    capsys.readouterr()
    before = [file.stat().st_mtime_ns for file in sorted((tmp_path / "work").rglob("metrics.json"))]
    efficient.main(words)
    assert [file.stat().st_mtime_ns for file in sorted((tmp_path / "work").rglob("metrics.json"))] == before
