"""How well a quantized artifact keeps the model's answers, and what it must reach to be written."""

import numpy as np

VECTORS = ("embedding", "sequence_output", "pooled_output")
# of vectors, which have no answer that could be the same, the mean over the texts; of scores
NEEDED = {"cosine_mean": 0.99, "correlation": 0.99}
WORDS = {
    "agreement": "agrees with the model in",
    "cosine_mean": "has a mean cosine with the model of",
    "cosine_min": "has a cosine with the model of",
    "correlation": "has a correlation with the model of",
}

# Texts for a gate where the user gives none: what people write, and what tokenizers and quantized models trip over.
TEXTS = (
    "A short sentence about the weather in spring.",
    "The film was wonderful, and I would watch it again tomorrow.",
    "Two hours of my life that I will never get back.",
    "The acting is fine, but the story goes nowhere.",
    "Our room was clean, quiet and had a view of the lake.",
    "Nobody answered the phone, and the refund never came.",
    "I have mixed feelings about this phone.",
    "Great value, fast delivery, friendly people!",
    "The battery died after a week and the screen is scratched.",
    "Not bad at all, not good either.",
    "The committee will meet on Tuesday at 9:30 to discuss the budget.",
    "How do I reset my password if I no longer have that e-mail address?",
    "Please cancel my order no. 48-1123 and confirm by mail.",
    "Scientists found water ice in the shadowed craters of the Moon.",
    "The quick brown fox jumps over the lazy dog. " * 12,
    "She said: “Don't you dare!” — and laughed.",
    "THIS IS THE WORST SERVICE EVER!!!",
    "ok",
    "I love it",
    "I hate it",
    "Prices rose 3.5% in 2024, to $1,299.99 (incl. VAT).",
    "Visit https://example.org/a?b=c#d or write to me@example.org.",
    "C++ and C# are languages; e.g. x = y[0] ** 2;",
    "Ünïcödé ﬁ Ǆ café naïve Straße",
    "你好，世界",
    "商务大床房，2T 很干净，服务也好。",
    "这部电影太无聊了，我睡着了。",
    "東京タワーはとても高いです。",
    "안녕하세요 세계",
    "Привет, мир! Это очень хороший фильм.",
    "Η ταινία ήταν υπέροχη.",
    "मुझे यह फिल्म पसंद आई",
    "فيلم جميل جدا",
    "Good 👍🏽 film 😀😀",
    "[CLS] [SEP] [MASK] ##ing",
    "don't can't won't it's we're",
    "e\u0301 \u212b \ufb01 \u200b\u00ad\ufeff",
    "tab\tline\nreturn\r\nnull",
    "   leading and trailing   ",
    "internationalization antidisestablishmentarianism",
    "a" * 300,
    "!!! ??? ... ---",
    "1 2 3 4 5 6 7 8 9 10",
    "-1.5e-10 0x7f 1/2 50°",
    "½ ² № ™ © → ≤ ∞",
    "x",
    "?",
    " ",
    "",
    "\u3000全角　ＦＵＬＬ　ｗｉｄｔｈ",
)


def measure(head, probes, run):
    """Asks both sides, and counts.

    Args:
        head: key in `HEADS`, or None.
        probes: iterable of `comparison.Probe`.
        run: (signature, inputs) -> arrays by name, of the artifact.

    Returns:
        dict: "probes", how many; by what the head gives, "agreement", the share of equal decisions (labels, choices,
        likeliest words, answers, all entities of a text; of ids, each real token's label); "cosine_mean",
        "cosine_percentile_1" and "cosine_min" of vectors; "correlation" of scores. What is not finite never agrees.
    """
    same, cosines, scores, count = [], [], [], 0
    for probe in probes:
        expected, got = probe.keras(), run(probe.signature, probe.inputs)
        mask, count = probe.inputs.get("padding_mask"), count + 1
        whole = [name for name, value in expected.items() if not (_floats(value) and value.size)]
        if whole:
            same.append(_same_rows(whole, got, expected))
        for name, value in expected.items():
            if name in VECTORS:
                chosen = np.asarray(mask, bool) if name == "sequence_output" else slice(None)
                cosines.append(_cosines(got[name][chosen], value[chosen]))
            elif not whole and name == "score":
                scores.append([got[name], value])
            elif not whole:  # labels, places and words say already what their probabilities do
                same.append(_same(head, got[name], value, mask))
    found = {"probes": count}
    if same:
        found["agreement"] = float(np.concatenate(same).mean())
    if cosines:
        cosines = np.concatenate(cosines)
        low = float(np.percentile(cosines, 1))
        found |= {
            "cosine_mean": float(cosines.mean()),
            "cosine_percentile_1": low,
            "cosine_min": float(cosines.min()),
        }
    if scores:
        found["correlation"] = float(np.corrcoef(np.concatenate(scores, axis=1).astype("float64"))[0, 1])
    return found


def shortfall(measured, needed):
    """Says in half a sentence what `measured` lacks; "" where it reaches `NEEDED`, or what `needed` has instead."""
    for name, share in {**NEEDED, **needed}.items():
        if name in measured and not measured[name] >= share:
            return f"{WORDS[name]} {measured[name]:.2%} over {measured['probes']} texts, needed {share:.2%}"
    return ""


def _same_rows(names, got, expected):
    """Gives a bool per text: all these answers are equal; of words the likeliest ones."""
    rows = np.ones(len(expected[names[0]]), bool)
    for value in got.values():
        if _floats(value):
            rows &= np.isfinite(value).reshape(len(rows), -1).all(axis=1)
    for name in names:
        one, other = got[name], expected[name]
        if one.shape[1:] != other.shape[1:]:  # another number of entities
            return np.zeros(len(rows), bool)
        one, other = (x[..., :1] if name == "words" else x for x in (one, other))
        rows &= (one == other).reshape(len(rows), -1).all(axis=1)
    return rows


def _same(head, got, expected, mask):
    """Gives a bool per decision."""
    expected = _decisions(head, expected, mask)
    if _floats(got) and not np.isfinite(got).all():
        return np.zeros(expected.size, bool)
    return (_decisions(head, got, mask) == expected).ravel()


def _decisions(head, value, mask):
    if head == "span_extractor":
        return np.where(np.asarray(mask, bool)[..., None], value, -np.inf).argmax(axis=1)  # (B, 2)
    if head == "replaced_token_detector":
        return value > 0.5 if mask is None else (value > 0)[np.asarray(mask, bool)]
    decided = value.argmax(axis=-1)
    return decided[np.asarray(mask, bool)] if head == "token_classifier" else decided


def _floats(array):
    return np.issubdtype(array.dtype, np.floating)


def _cosines(got, expected):
    lengths = np.linalg.norm(got, axis=-1) * np.linalg.norm(expected, axis=-1)
    return (got * expected).sum(axis=-1) / np.maximum(lengths, 1e-12)
