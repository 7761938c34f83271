"""Offsets in code points, as this package counts them, in the units that other languages count."""

WIDTHS = {  # units that a code point takes
    "utf-16": lambda c: 1 + (c > 0xFFFF),
    "utf-8": lambda c: 1 + (c > 0x7F) + (c > 0x7FF) + (c > 0xFFFF),
}


def convert_offsets(text, offsets, unit):
    """Gives the same places of a text in UTF-16 code units or in UTF-8 bytes.

    Args:
        offsets: pairs (start, end) that count the code points of `text`, as those of an `Encoding` do.
        unit: "utf-16", as Java, Kotlin, JavaScript, C# and Swift's NSString count, or "utf-8", as Go, Rust and C++ do.

    Returns:
        list of pairs.

    Raises:
        ValueError: the unit is another one, or an offset lies outside the text.
    """
    if unit not in WIDTHS:
        raise ValueError(f"`unit` must be one of {', '.join(WIDTHS)}, got {unit!r}.")
    places = [0]
    for char in text:
        places.append(places[-1] + WIDTHS[unit](ord(char)))
    outside = [place for pair in offsets for place in pair if not 0 <= place < len(places)]
    if outside:
        raise ValueError(f"`offsets` must lie within the {len(text)} code points of the text, got {outside[0]}.")
    return [(places[start], places[end]) for start, end in offsets]
