"""A progress bar for `fit`, shared by the recipes."""

import time

import keras
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class ProgressBar(keras.callbacks.Callback):
    """Shows steps, time left and the named logs on standard error; `fit` itself runs with `verbose=0`.

    with ProgressBar(steps, "pretrain", {"loss": "loss"}) as bar:
        model.fit(data, callbacks=[bar], verbose=0)

    Args:
        total_steps: over all epochs.
        title: what is shown in front of the bar.
        logs: names of Keras logs to what they are shown as, such as {"loss": "loss"}.
        done: steps of an earlier run that this one goes on from.
        shown: False for all but one of several workers.
    """

    def __init__(self, total_steps, title, logs, done=0, shown=True):
        super().__init__()
        self.names, self.updated = logs, 0.0
        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        console = Console(stderr=True)
        self.progress = Progress(*columns, TextColumn("{task.fields[shown]}"), console=console, disable=not shown)
        self.task = self.progress.add_task(title, total=total_steps, completed=done, shown="")

    def __enter__(self):
        self.progress.start()
        return self

    def __exit__(self, *error):
        self.progress.stop()  # also after an error: a bar left running hides the cursor

    def on_train_batch_end(self, batch, logs=None):
        self.progress.advance(self.task)
        if time.monotonic() - self.updated > 0.5:  # reading the logs waits for the step
            self.updated = time.monotonic()
            self.show(logs)

    def on_epoch_end(self, epoch, logs=None):
        self.show(logs)

    def show(self, logs):
        shown = "  ".join(f"{title} {logs[name]:.3f}" for name, title in self.names.items() if name in (logs or {}))
        self.progress.update(self.task, shown=shown)
