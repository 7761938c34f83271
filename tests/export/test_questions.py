from keras_bert.export import agreement, comparison
from keras_bert.export.questions import CHOICES, questions
from tests.models import tiny_bundle


def test_no_two_choices_of_a_text_have_the_same_tokens():
    """The likelier of two equal ones would be a matter of rounding."""
    bundle = tiny_bundle("multiple_choice")
    for texts in (comparison.TEXTS, agreement.TEXTS, [comparison.SHORT]):
        asked, choices = questions(bundle, texts)
        assert asked == list(texts)
        for row in choices:
            decoded = [text if isinstance(text, str) else text.decode("utf-8", "replace") for text in row]
            found = {tuple(encoding.ids) for encoding in bundle.tokenizer.encode_batch(decoded)}
            assert len(found) == CHOICES, row
