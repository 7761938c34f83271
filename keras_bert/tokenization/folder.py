"""A tokenizer's files in Hugging Face's layout: vocab.txt, tokenizer_config.json, tokenizer.json."""

import json
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from keras_bert.files import read_json, replace_file
from keras_bert.tokenization.characters import MAX_LETTERS
from keras_bert.tokenization.vocabulary import read_vocab, write_vocab

SPECIAL_NAMES = {  # as tokenizer_config.json calls them
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
CLASSES = ("Bert", "DistilBert", "Electra", "MobileBert", "ConvBert", "PreTrained")
SETTINGS = {"lowercase": "do_lower_case", "strip_accents": "strip_accents"} | {
    "tokenize_chinese_chars": "tokenize_chinese_chars",
    "clean_text": "clean_text",
    "rules": "wordpiece_rules",  # ours alone: "google" for Google's original rules
}


class OtherTokenizer(ValueError):
    """The files describe a tokenizer of another kind than BERT's."""


def read_folder(folder):
    """Reads what a tokenizer is made of; tokenizer_config.json wins over tokenizer.json, as in `transformers`.

    Returns:
        dict of the arguments of `Tokenizer`.

    Raises:
        OtherTokenizer: the files describe another kind of tokenizer.
        ValueError: there is no vocabulary, or it is broken.
    """
    folder = Path(folder)
    config, described = (json_or_nothing(folder / name) for name in ("tokenizer_config.json", "tokenizer.json"))
    _check_config(config)
    _check_description(described, config.get(SETTINGS["rules"], "huggingface"))
    model, normalizer = described.get("model") or {}, described.get("normalizer") or {}
    rows = model.get("vocab", {})
    if (folder / "vocab.txt").is_file():
        vocab = read_vocab(folder / "vocab.txt")
    elif rows:
        tokens = {row: token for token, row in rows.items()}
        vocab = tuple(tokens.get(row, "") for row in range(max(tokens) + 1))
    else:
        raise ValueError(f"{folder} must hold vocab.txt or tokenizer.json, got neither.")
    ids = {token: row for row, token in enumerate(vocab)}
    differing = [token for token, row in rows.items() if ids.get(token, row) != row]
    if differing:
        raise ValueError(f"vocab.txt and tokenizer.json in {folder} must agree, got two ids for {differing[0]!r}.")
    vocab, added = _with_added(vocab, ids, config, described)
    found = {
        "lowercase": normalizer.get("lowercase", True),
        "strip_accents": normalizer.get("strip_accents"),
        "tokenize_chinese_chars": normalizer.get("handle_chinese_chars", True),
        "clean_text": normalizer.get("clean_text", True),
        "rules": "huggingface",
    }
    settings = {name: config.get(SETTINGS[name], value) for name, value in found.items()}
    return {"vocab": vocab, "added_tokens": added} | settings


def write_folder(tokenizer, folder):
    """Writes the three files; `transformers` and `tokenizers` open them and give equal ids."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = {"tokenizer_class": "BertTokenizer"}
    config |= {key: getattr(tokenizer, name) for name, key in SETTINGS.items()}
    config |= {name: token for name, token in SPECIAL_NAMES.items() if token in tokenizer.special_tokens}
    if tokenizer.added_tokens:
        flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": False}
        added = {str(tokenizer.token_ids[token]): {"content": token, **flags} for token in tokenizer.added_tokens}
        config["added_tokens_decoder"] = added
    write_vocab(tokenizer.vocab, folder / "vocab.txt")
    for name, content in (
        ("tokenizer_config.json", json.dumps(config, indent=2)),
        ("tokenizer.json", as_tokenizers(tokenizer).to_str(pretty=True)),
    ):
        with replace_file(folder / name) as temporary:
            temporary.write_text(content + "\n", encoding="utf-8")


def as_tokenizers(tokenizer):
    """The same tokenizer as an object of the `tokenizers` library, which knows the `huggingface` rules only."""
    max_letters = MAX_LETTERS[tokenizer.rules]
    model = models.WordPiece(tokenizer.token_ids, unk_token="[UNK]", max_input_chars_per_word=max_letters)
    twin = tokenizers.Tokenizer(model)
    twin.normalizer = normalizers.BertNormalizer(
        clean_text=tokenizer.clean_text,
        handle_chinese_chars=tokenizer.tokenize_chinese_chars,
        strip_accents=tokenizer.strip_accents,
        lowercase=tokenizer.lowercase,
    )
    twin.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    twin.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", tokenizer.cls_id), ("[SEP]", tokenizer.sep_id)],
    )
    twin.decoder = decoders.WordPiece()
    twin.add_special_tokens([tokenizers.AddedToken(token, normalized=False) for token in tokenizer.special_tokens])
    twin.add_tokens([tokenizers.AddedToken(token, normalized=False) for token in tokenizer.added_tokens])
    return twin


def _with_added(vocab, ids, config, described):
    """The vocabulary with the tokens that the files add behind it, and those that count wherever a text has them."""
    entries = {entry["content"]: entry for entry in described.get("added_tokens", [])}
    for row, entry in config.get("added_tokens_decoder", {}).items():
        entries.setdefault(entry["content"], {"id": int(row), **entry})
    special = SPECIAL_NAMES.values()
    added = [token for token, entry in entries.items() if token not in special and not entry.get("special")]
    for token in added:
        odd = [flag for flag in ("normalized", "single_word", "lstrip", "rstrip") if entries[token].get(flag)]
        if odd:
            raise ValueError(f"Added tokens must be found as they stand, got `{odd[0]}` true for {token!r}.")
    vocab = list(vocab)
    for token in sorted(entries.keys() - ids.keys(), key=lambda token: entries[token].get("id", 0)):
        row = entries[token].get("id")
        if row != len(vocab):
            raise ValueError(f"Added tokens must follow the vocabulary's {len(vocab)}, got id {row} for {token!r}.")
        vocab.append(token)
    return tuple(vocab), tuple(added)


def json_or_nothing(path):
    """The object in a JSON file; empty where there is no file."""
    return read_json(path) if path.is_file() else {}


def _check_config(config):
    name = config.get("tokenizer_class") or "BertTokenizer"
    if name.removesuffix("Fast") not in [f"{known}Tokenizer" for known in CLASSES]:
        raise OtherTokenizer(f"tokenizer_config.json must describe a BertTokenizer, got `tokenizer_class` {name}.")
    for key, token in SPECIAL_NAMES.items():
        value = config.get(key) or token
        value = value["content"] if isinstance(value, dict) else value
        if value != token:
            raise OtherTokenizer(f"`{key}` in tokenizer_config.json must be {token}, got {value}.")
    if config.get("never_split"):
        raise OtherTokenizer(f"`never_split` in tokenizer_config.json must be empty, got {config['never_split']}.")
    if config.get("do_basic_tokenize", True) is not True:
        raise OtherTokenizer("`do_basic_tokenize` in tokenizer_config.json must be true, got false.")


def _check_description(described, rules):
    if not described:
        return
    model, max_letters = described.get("model") or {}, MAX_LETTERS.get(rules)
    for part, kind, got in (
        ("model", "WordPiece", model.get("type", "WordPiece" if "max_input_chars_per_word" in model else None)),
        ("normalizer", "BertNormalizer", (described.get("normalizer") or {}).get("type")),
        ("pre_tokenizer", "BertPreTokenizer", (described.get("pre_tokenizer") or {}).get("type")),
        ("continuing_subword_prefix", "##", model.get("continuing_subword_prefix", "##")),
        ("max_input_chars_per_word", max_letters, model.get("max_input_chars_per_word", max_letters)),
        ("unk_token", "[UNK]", model.get("unk_token", "[UNK]")),
    ):
        if got != kind:
            raise OtherTokenizer(f"`{part}` in tokenizer.json must be {kind}, got {got}.")
