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
    row_sequences: Annotated[int, typer.Option(min=1, help="Most examples packed into a row; 1 for no packing.")] = 1,
    epoch: Annotated[int, typer.Option(help="Each has other pairs and masks.")] = 0,
    seed: Annotated[int, typer.Option()] = 0,
):
    """Print pretraining examples as a person reads them, and histograms of their lengths and masks.

    A masked word stands as [MASK:word], one that another took the place of as [other:word], a kept one as [=word]. Of
    packed rows each example has a line of its own, with the places that it has in the row.

    Example: keras-bert show-data prepared --masking words
    """
    from keras_bert_cli.quiet import import_tensorflow

    import_tensorflow()
    from rich.console import Console

    from keras_bert.tokenization import Tokenizer
    from keras_bert.training.sampling import packed_examples, sample_examples
    from keras_bert.training.shards import read_shards

    documents, _ = read_shards(folder)
    tokenizer = Tokenizer.from_folder(folder)
    features = sample_examples(
        documents, tokenizer, max_length=max_length, pairing=pairing, masking=masking, rate=rate, epoch=epoch, seed=seed
    )
    console = Console()
    if row_sequences > 1:
        packed, numbers = packed_examples(features, max_length, row_sequences, tokenizer.pad_id, seed)
        for row in range(min(examples, len(numbers))):
            show_packed_row(console, features, packed, numbers, tokenizer, row)
    else:
        for number in range(min(examples, len(features["token_ids"]))):
            show_example(console, features, tokenizer, number)
    show_statistics(console, features, max_length)
    if row_sequences > 1:
        show_packing(console, features, numbers, max_length)


def show_example(console, features, tokenizer, number):
    """Prints one example: what its label says, and the row with its masks marked."""
    console.print(f"[bold]example {features['example_index'][number]}[/bold]  {said_of_pair(features, number)}")
    length = features["padding_mask"][number].sum()
    console.print(marked_line(features, tokenizer, number, range(length)))
    console.print()


def show_packed_row(console, features, packed, numbers, tokenizer, row):
    """Prints one row: a line for each example in it, then the padding."""
    ids = packed["sequence_ids"][row]
    console.print(f"[bold]row {row}[/bold]  {(numbers[row] >= 0).sum()} examples, {(ids == 0).sum()} padding")
    for slot, number in enumerate(numbers[row][numbers[row] >= 0]):
        places = (ids == slot + 1).nonzero()[0].tolist()
        name = f"  {places[0]}-{places[-1]}  example {features['example_index'][number]}  "
        console.print(f"[bold]{name}[/bold]{said_of_pair(features, number)}")
        console.print(marked_line(packed, tokenizer, row, places))
    console.print()


def said_of_pair(features, number):
    """What the label of an example says; nothing where there are no pairs."""
    label = features.get("next_sentence_label")
    return "" if label is None else ("B follows A", "B does not follow A")[label[number]]


def marked_line(features, tokenizer, row, places):
    """The tokens at some places of a row, with what was masked there."""
    from rich.text import Text

    line = Text()
    used = int(features["weights"][row].sum())
    masked, words = (features[name][row, :used].tolist() for name in ("masked_positions", "labels"))
    answers = dict(zip(masked, words, strict=True))
    for place in places:
        token_id = int(features["token_ids"][row, place])
        if place in answers:
            line.append(marked(token_id, answers[place], tokenizer), style="bold red")
        else:
            line.append(tokenizer.vocab[token_id], style="dim" if token_id in tokenizer.special_ids else "")
        line.append(" ")
    return line


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


def show_packing(console, features, numbers, max_length):
    """Prints what packing saves."""
    tokens, examples = features["padding_mask"].sum(), len(features["token_ids"])
    shares = [1 - tokens / (rows * max_length) for rows in (len(numbers), examples)]
    console.print(
        f"packed into {len(numbers):,} rows of {examples / len(numbers):.1f} examples: padding {shares[0]:.1%}, "
        f"in rows of their own {shares[1]:.1%}",
        highlight=False,
    )


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
