"""`keras-bert show-data`: what a model will see of a prepared corpus."""

from pathlib import Path
from typing import Annotated

import typer


def show_data(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What `keras-bert prepare` wrote.")],
    examples: Annotated[int, typer.Option(help="How many to print.")] = 3,
    max_length: Annotated[int, typer.Option(help="Tokens of a row.")] = 128,
    pairing: Annotated[str, typer.Option(help="next_sentence, sentence_order or full_sentences.")] = "next_sentence",
    masking: Annotated[str, typer.Option(help="tokens, words or spans.")] = "tokens",
    rate: Annotated[float, typer.Option(help="Share of the tokens to mask.")] = 0.15,
    epoch: Annotated[int, typer.Option(help="Each has other pairs and masks.")] = 0,
    seed: Annotated[int, typer.Option()] = 0,
):
    """Print pretraining examples as a person reads them, and histograms of their lengths and masks.

    A masked word stands as [MASK:word], one that another took the place of as [other:word], a kept one as [=word].

    Example: keras-bert show-data prepared --masking words
    """
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    from rich.console import Console

    from keras_bert.tokenization import Tokenizer
    from keras_bert.training.sampling import sample_examples
    from keras_bert.training.shards import read_shards

    documents, _ = read_shards(folder)
    tokenizer = Tokenizer.from_folder(folder)
    features = sample_examples(
        documents, tokenizer, max_length=max_length, pairing=pairing, masking=masking, rate=rate, epoch=epoch, seed=seed
    )
    console = Console()
    for number in range(min(examples, len(features["token_ids"]))):
        show_example(console, features, tokenizer, number)
    show_statistics(console, features, max_length)


def show_example(console, features, tokenizer, number):
    """Prints one example: what its label says, and the row with its masks marked."""
    from rich.text import Text

    label = features.get("next_sentence_label")
    said = "" if label is None else ("B follows A", "B does not follow A")[label[number]]
    console.print(f"[bold]example {features['example_index'][number]}[/bold]  {said}")
    line = Text()
    used = int(features["weights"][number].sum())
    places, words = (features[name][number, :used].tolist() for name in ("masked_positions", "labels"))
    answers = dict(zip(places, words, strict=True))
    length = features["padding_mask"][number].sum()
    for position, token_id in enumerate(features["token_ids"][number, :length].tolist()):
        if position in answers:
            line.append(marked(token_id, answers[position], tokenizer), style="bold red")
        else:
            line.append(tokenizer.vocab[token_id], style="dim" if token_id in tokenizer.special_ids else "")
        line.append(" ")
    console.print(line)
    console.print()


def marked(token_id, answer, tokenizer):
    """How a chosen token is written."""
    token, word = tokenizer.vocab[token_id], tokenizer.vocab[answer]
    if token_id == tokenizer.mask_id:
        return f"[MASK:{word}]"
    return f"[={word}]" if token_id == answer else f"[{token}:{word}]"


def show_statistics(console, features, max_length):
    """Prints histograms of lengths and masks, and the shares of padding, masks and labels."""
    lengths, masks = features["padding_mask"].sum(axis=1), features["weights"].sum(axis=1).astype(int)
    width = max(1, max_length // 8)
    show_histogram(console, f"tokens of a row (of {max_length})", (lengths - 1) // width * width + 1, width)
    width = max(1, -(-int(masks.max()) // 8))
    show_histogram(console, "chosen tokens of a row", masks // width * width, width)
    console.print(f"examples {len(lengths):,}, padding {1 - lengths.mean() / max_length:.1%}, chosen "
                  f"{masks.sum() / lengths.sum():.1%} of the tokens", highlight=False)  # fmt: skip
    if "next_sentence_label" in features:
        console.print(f"B does not follow A in {features['next_sentence_label'].mean():.1%}", highlight=False)


def show_histogram(console, title, bins, width):
    """Prints a bar for each bin; `bins` holds each value's lower border."""
    import numpy as np
    from rich.table import Table

    table = Table("from", "to", "examples", "", title=title, title_justify="left")
    borders, counts = np.unique(bins, return_counts=True)
    for border, count in zip(borders.tolist(), counts.tolist(), strict=True):
        bar = "█" * max(1, round(40 * count / counts.max()))
        table.add_row(str(border), str(border + width - 1), f"{count:,}", bar)
    console.print(table)
