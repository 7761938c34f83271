"""Tags of words, in any of the usual schemes, to entities."""

PREFIXES = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S"}


def split_tag(tag):
    """Gives a tag's place in its entity, one of B, I, E, S, O, and the entity's type ("" for O).

    M counts as I, L as E, U as S. A tag without a type, such as "B", has the type "_".

    Raises:
        ValueError: the tag is neither "O" nor begins with one of these letters and a hyphen.
    """
    if tag == "O":
        return "O", ""
    place, hyphen, kind = tag.partition("-")
    if place not in PREFIXES or bool(hyphen) != bool(kind):
        raise ValueError(f"A tag must be O, or one of {', '.join(PREFIXES)} with a type, as B-PER, got `{tag}`.")
    return PREFIXES[place], kind or "_"


def is_tag(label):
    """Whether a label is a tag of an entity scheme."""
    try:
        split_tag(label)
    except ValueError:
        return False
    return True


def tag_spans(tags):
    """Reads one text's tags as entities, whichever of IOB1, BIO, BMES, BIOES or BILOU they are, or a mix.

    An entity goes on where I or E follows B or I of the same type; anything else but O begins one. So tags that break
    their scheme's rules still give entities, as conlleval and seqeval read them.

    Args:
        tags: list of str, one a word.

    Returns:
        list of (start, end, type), words half-open, in the order of the text.

    Source: the rules of conlleval.
    """
    spans, start, before = [], None, ("O", "")
    for i, tag in enumerate([*tags, "O"]):
        place, kind = split_tag(tag)
        goes_on = place in "IE" and before[0] in "BI" and kind == before[1]
        if start is not None and not goes_on:
            spans.append((start, i, before[1]))
            start = None
        if start is None and place != "O":
            start = i
        before = place, kind
    return spans
