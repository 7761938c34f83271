"""Texts as a head is asked them: with masks, second texts, choices."""

from keras_bert.export import signatures

CHOICES = 3


def questions(bundle, texts, paired=False):
    """Makes of texts (str or bytes) what the head takes, the second texts from the same ones.

    Returns:
        texts, and pairs: None, texts, or lists of `CHOICES` texts.
    """
    takes = signatures.takes(bundle)
    if takes == "masks":
        texts = [_masked(bundle, text) for text in texts]
    if takes == "choices":
        return list(texts), [[texts[(i - n) % len(texts)] for n in range(1, CHOICES + 1)] for i in range(len(texts))]
    return list(texts), list(texts[::-1]) if paired or takes in ("pairs", "contexts") else None


def _masked(bundle, text):
    mask = f" {bundle.tokenizer.vocab[bundle.tokenizer.mask_id]} "
    return mask + text if isinstance(text, str) else mask.encode() + text
