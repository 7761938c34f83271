"""`load_tokenizer`: the tokenizer of a folder, whatever its kind."""

from pathlib import Path

from keras_bert.tokenization.folder import OtherTokenizer, json_or_nothing
from keras_bert.tokenization.host import read_host_tokenizer
from keras_bert.tokenization.tokenizer import Tokenizer

FILES = ("vocab.txt", "tokenizer.json", "vocab.json", "spiece.model")


def load_tokenizer(folder):
    """Reads the tokenizer that a folder holds: BERT's WordPiece, RoBERTa's byte-level BPE or ALBERT's SentencePiece.

    Returns:
        a `Tokenizer`, or a `HostTokenizer` for RoBERTa and ALBERT.

    Raises:
        OtherTokenizer: the files describe a tokenizer of another kind.
        ValueError: there is none, or it is broken.
    """
    folder = Path(folder)
    if not any((folder / name).is_file() for name in FILES):
        raise ValueError(f"{folder} must hold one of {', '.join(FILES)}, got none.")
    config, described = (json_or_nothing(folder / name) for name in ("tokenizer_config.json", "tokenizer.json"))
    kind = (described.get("model") or {}).get("type")
    if (folder / "vocab.txt").is_file() or (kind in ("WordPiece", None) and described):
        return Tokenizer.from_folder(folder)
    steps = described.get("pre_tokenizer") or {}
    bytes_level = any(step.get("type") == "ByteLevel" for step in (steps, *steps.get("pretokenizers", [])))
    if described and kind != "Unigram" and not (kind == "BPE" and bytes_level):
        raise OtherTokenizer(
            f"tokenizer.json must hold WordPiece (BERT), byte-level BPE (RoBERTa) or Unigram (ALBERT), got {kind}."
        )
    if not described and (folder / "vocab.json").is_file() and not (folder / "merges.txt").is_file():
        raise ValueError(f"{folder} must hold merges.txt beside vocab.json, got vocab.json alone.")
    return read_host_tokenizer(folder, config, described)
