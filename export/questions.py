"""Texts as a head is asked them: with masks, second texts, choices."""

from keras_bert.export import signatures

# what a choice begins with: blank ones have the same tokens, and of two equal ones rounding decides which is likelier
BEGINNINGS = ("", "a ", "b ")
CHOICES = len(BEGINNINGS)


def questions(bundle, texts, paired=False):
    """Makes of texts (str or bytes) what the head takes, the second texts from the same ones.

    Returns:
        texts, and pairs: None, texts, or lists of `CHOICES` texts.
    """
    takes = signatures.takes(bundle)
    if takes == "masks":
        texts = [_masked(bundle, text) for text in texts]
    if takes == "choices":
        return list(texts), [_choices(texts, i) for i in range(len(texts))]
    return list(texts), list(texts[::-1]) if paired or takes in ("pairs", "contexts") else None


def _choices(texts, i):
    return [_after(beginning, texts[(i - n) % len(texts)]) for n, beginning in enumerate(BEGINNINGS, 1)]


def _masked(bundle, text):
    return _after(f" {bundle.tokenizer.vocab[bundle.tokenizer.mask_id]} ", text)


def _after(beginning, text):
    return beginning + text if isinstance(text, str) else beginning.encode() + text
