"""Trains a WordPiece vocabulary on a corpus."""

import collections

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def train_vocab(texts, size, lowercase=True, unused=0):
    """Trains a WordPiece vocabulary with `tokenizers`, after BERT's own cleaning and splitting.

    Args:
        texts: iterable of str, read once.
        size: the most tokens to have; a small corpus may give fewer.
        lowercase: whether to lower-case and strip accents first, as the tokenizer must then do too.
        unused: rows [unused0], [unused1] ... to leave free, counted in `size`. BERT's vocabularies have 99 between
            [PAD] and [UNK], and more behind [MASK].

    Returns:
        tuple of str: [PAD], up to 99 unused rows, [UNK], [CLS], [SEP], [MASK], the other unused rows, the pieces.

    Raises:
        ValueError: `size` leaves no room for the texts' characters, or the texts hold no word.
    """
    if unused < 0:
        raise ValueError(f"`unused` must be at least 0, got {unused}.")
    if size - unused <= len(SPECIAL_TOKENS):
        what = "the number of special tokens" if not unused else "the number of special and unused tokens"
        raise ValueError(f"`size` must be over {len(SPECIAL_TOKENS) + unused}, {what}, got {size}.")
    size -= unused
    words = count_words(texts, lowercase)
    if not words:
        raise ValueError("The texts must hold at least one word to train a vocabulary on, got none.")
    # Chinese has more characters than `tokenizers` would keep by default (1,000); a quarter is left for pieces.
    characters = collections.Counter()
    for word, count in words.items():
        for character in word:
            characters[character] += count
    common = sorted(characters, key=lambda character: (-characters[character], character))
    alphabet = set(common[: max(1, (size - len(SPECIAL_TOKENS)) * 3 // 4)])
    # Named as special tokens, the one-character pieces have the same ids in every process; `tokenizers` would take
    # them in the order of a hash map with a random seed, and break ties between merges by it.
    pieces = sorted({"##" + character for word in words for character in word[1:] if character in alphabet})
    least = len(SPECIAL_TOKENS) + len(alphabet) + len(pieces)
    if size < least:
        raise ValueError(f"`size` must be at least {least} for the characters of these texts, got {size}.")
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        special_tokens=[*SPECIAL_TOKENS, *pieces],
        initial_alphabet=sorted(alphabet),
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator((f"{word} " * count for word, count in words.items()), trainer)
    vocab = tokenizer.get_vocab()
    pieces = sorted(vocab, key=vocab.get)
    free = [f"[unused{i}]" for i in range(unused)]
    # A text's own "[unused1]" is never one piece: brackets are words by themselves.
    return (*pieces[:1], *free[:99], *pieces[1:5], *free[99:], *pieces[5:])


def count_words(texts, lowercase):
    """Counts words after BERT's cleaning and splitting."""
    normalizer, splitter = normalizers.BertNormalizer(lowercase=lowercase), pre_tokenizers.BertPreTokenizer()
    words = collections.Counter()
    for text in texts:
        words.update(word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
    return words
