"""Fine-tuned scores beside those of `transformers` and torch: the same model, data and recipe, several seeds.

    python -m benchmarks.scores --model MINILM --tasks rte mrpc --seeds 0 1 2 3 4 --out docs/results.md

Each run of a task, a seed and a side leaves a file in --work, and is not done again: stop it whenever you like, and
start it again. Each task has a section of its own, made from the runs that are there.
"""

import json
import time
from pathlib import Path

import numpy as np

from benchmarks import score_tasks, torch_recipe
from benchmarks.report import Table, arguments, publish
from keras_bert.files import replace_file
from keras_bert.training.metrics import paired_bootstrap

SIDES = {"ours": score_tasks.ours, "transformers": torch_recipe.answers}


def run(task, model, seed, side, work):
    """Trains and answers, unless that was done already."""
    path = Path(work) / f"{task}-{seed}-{side}.json"
    if path.exists():
        return
    config = score_tasks.settings(task, model, seed, work)
    started = time.monotonic()
    found = {"answers": SIDES[side](config), "seconds": round(time.monotonic() - started)}
    with replace_file(path) as temporary:
        Path(temporary).write_text(json.dumps(found), encoding="utf-8")


def table(task, model, work):
    """What both sides reached, or None where one has no runs."""
    found, config = score_tasks.TASKS[task], score_tasks.settings(task, model, 0, work)
    counted = found.kind.counts(config)
    counts, scores, seconds = {}, {}, {}
    for side in SIDES:
        paths = sorted(Path(work).glob(f"{task}-*-{side}.json"))
        runs = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        if not runs:
            return None
        counts[side] = [counted(one["answers"]) for one in runs]
        seconds[side] = np.median([one["seconds"] for one in runs])
        scores[side] = [found.score(rows) for rows in counts[side]]
    low, high = paired_bootstrap(lambda drawn, rows: found.score(rows[drawn]), *(counts[side] for side in SIDES))
    means = {side: np.mean(scores[side]) for side in SIDES}
    lines = [
        (side, f"{means[side]:.4f}", ", ".join(f"{one:.4f}" for one in scores[side]), f"{seconds[side]:.0f}")
        for side in SIDES
    ]
    difference = means["ours"] - means["transformers"]
    lines.append(("difference", f"{difference:+.4f}", f"95% of a paired bootstrap: {low:+.4f} to {high:+.4f}", ""))
    recipe = ", ".join(f"{name} {value}" for name, value in found.kind.usual.items())
    examples = len(counts["ours"][0])
    title = f"{Path(model).name}, {recipe}; {examples:,} examples scored"
    return Table(title, ("", found.name, "each seed", "seconds a run"), lines)


def main():
    parser = arguments("Fine-tuned scores beside those of transformers and torch.")
    parser.add_argument("--model", required=True, type=Path, help="Hugging Face folder of the pretrained model")
    parser.add_argument("--tasks", nargs="+", default=list(score_tasks.TASKS), choices=list(score_tasks.TASKS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2, 3, 4], help="none to show what is there")
    parser.add_argument("--work", type=Path, default=Path("build/scores"), help="where each run's answers stay")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if "squad2" in options.tasks:
        score_tasks.write_articles(options.work)
    for task in options.tasks:
        for seed in options.seeds:
            for side in SIDES:
                run(task, options.model, seed, side, options.work)
        found = table(task, options.model, options.work)
        if found:
            publish(f"Scores: {task}", [found], options.out)


if __name__ == "__main__":
    main()
