"""Micro-batching: rows that wait at the same time go through a model together, with rows of similar length."""

import asyncio
import collections
import dataclasses
import functools
import logging
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from keras_bert.export.server.refusal import Refusal

SHORTEST, LONGEST = 64, 4096  # bytes; texts below and above are alike: mostly overhead, and mostly truncated
BATCH_BYTES = 4096  # of a batch, padding included: more rows cost no less each, and let others wait
TOKEN_BYTES = 4  # that an id counts for: so many has a token of English, and nearly so many one of Chinese


@dataclasses.dataclass(frozen=True)
class Limits:
    """What the server takes upon itself.

    Args:
        max_batch_size: rows that go through a model together, fewer of long texts; 1 answers one by one.
        max_delay_ms: that a row waits for others.
        max_queue: rows that may wait, of all models.
        timeout_s: that a request may take.
        max_body_bytes: of a request.
        workers: model calls at the same time; each uses all cores.
    """

    max_batch_size: int = 32
    max_delay_ms: float = 2.0
    max_queue: int = 1024
    timeout_s: float = 30.0
    max_body_bytes: int = 1_000_000
    workers: int = 1

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name == "max_delay_ms" else 1 if field.type is int else 0.001
            if not value >= least:
                raise ValueError(f"`{field.name}` must be at least {least}, got {value}.")


@dataclasses.dataclass(eq=False)
class Job:
    """Rows of one request that may go into one batch, and the future of their answers."""

    inputs: dict
    rows: int
    since: float
    answer: asyncio.Future


class Batcher:
    """Queues of jobs that may be joined. Everything runs in the event loop, except the models.

    Args:
        limits: `Limits`.
        observe: called with the rows of each batch.
    """

    def __init__(self, limits, observe=lambda rows: None):
        self.limits = limits
        self.observe = observe
        self.rows = 0
        self._queues = {}  # (run, (shapes, length)) -> jobs
        self._running = 0
        self._timer = None
        self._threads = ThreadPoolExecutor(limits.workers, thread_name_prefix="model")

    async def ask(self, run, inputs):
        """Gives `run`'s outputs for all rows of `inputs`.

        Args:
            run: dict of arrays -> dict of arrays, row by row; the same object for all that may be joined.
            inputs: dict of arrays with at least one row.

        Raises:
            Refusal: 413 for more rows than the queue may ever hold, 429 for a full queue, 504 after `timeout_s`, and
                what `run` raises.
        """
        count = len(next(iter(inputs.values())))
        if count > self.limits.max_queue:
            raise Refusal(413, f"A request may have {self.limits.max_queue} rows, got {count}; send several requests.")
        if self.rows + count > self.limits.max_queue:
            raise Refusal(429, f"{self.rows} rows are waiting and {self.limits.max_queue} may; try again later.")
        loop = asyncio.get_running_loop()
        parts = split(inputs, self.limits.max_batch_size)
        jobs = []
        for kind, chosen in parts:
            part = {name: array[chosen] for name, array in inputs.items()}
            jobs.append(Job(part, len(chosen), time.monotonic(), loop.create_future()))
            self._queues.setdefault((run, kind), collections.deque()).append(jobs[-1])
            self.rows += len(chosen)
        self._start()
        try:
            async with asyncio.timeout(self.limits.timeout_s):
                answers = await asyncio.gather(*(job.answer for job in jobs))
        except TimeoutError:
            raise Refusal(504, f"There was no answer within {self.limits.timeout_s:g} s.") from None
        finally:
            self._forget({job for job in jobs if job.answer.cancelled() or not job.answer.done()})
        return join([chosen for _, chosen in parts], answers, count)

    def close(self):
        """Ends the threads, after the batches that run."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _start(self):
        """Starts the batches that are full or have waited, and sets a timer for the next one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._running < self.limits.workers and self._queues:
            now, delay = time.monotonic(), self.limits.max_delay_ms / 1000
            due = {key: queue[0].since + delay for key, queue in self._queues.items()}
            ready = [key for key in due if due[key] <= now or self._is_full(key)]
            if not ready:
                self._timer = asyncio.get_running_loop().call_later(min(due.values()) - now, self._start)
                return
            key = min(ready, key=due.get)  # the oldest, full or not: a rare kind would wait for ever
            self._run(key[0], self._take(key))

    def _is_full(self, key):
        return sum(job.rows for job in self._queues[key]) >= most_rows(key[1], self.limits.max_batch_size)

    def _take(self, key):
        """Takes jobs from the queue's front, as many as a batch may have."""
        queue, jobs, rows = self._queues[key], [], 0
        while queue and (not jobs or rows + queue[0].rows <= most_rows(key[1], self.limits.max_batch_size)):
            jobs.append(queue.popleft())
            rows += jobs[-1].rows
        if not queue:
            del self._queues[key]
        self.rows -= rows
        return jobs

    def _forget(self, jobs):
        """Takes jobs out of the queues whose requests wait no longer."""
        for job in jobs:
            job.answer.cancel()
        for key, queue in list(self._queues.items()) if jobs else ():
            stay = collections.deque(job for job in queue if job not in jobs)
            self.rows -= sum(job.rows for job in queue) - sum(job.rows for job in stay)
            if stay:
                self._queues[key] = stay
            else:
                del self._queues[key]

    def _run(self, run, jobs):
        self._running += 1
        self.observe(sum(job.rows for job in jobs))
        called = asyncio.get_running_loop().run_in_executor(self._threads, answers_of, run, jobs)
        called.add_done_callback(functools.partial(self._done, jobs))

    def _done(self, jobs, called):
        self._running -= 1
        if called.cancelled():  # the server is closing
            answers = [Refusal(503, "The server is closing.")] * len(jobs)
        else:
            answers = called.result()
        for job, answer in zip(jobs, answers, strict=True):
            if job.answer.done():
                continue
            if isinstance(answer, Exception):
                job.answer.set_exception(answer)
            else:
                job.answer.set_result(answer)
        self._start()


def split(inputs, size):
    """Sorts rows by what may be joined: the same shapes, and texts whose lengths differ by a factor of 1.4 at most.

    Returns:
        list of (kind, numbers of at most `size` rows, fewer of long ones); rows of one kind may be joined with others
        of that kind, which is (shapes, the most bytes that a text of it has).
    """
    shapes = tuple((name, array.shape[1:]) for name, array in sorted(inputs.items()))
    lengths = np.zeros(len(next(iter(inputs.values()))), int)
    for array in inputs.values():
        if array.dtype == object:
            lengths += [sum(map(len, row.ravel())) for row in array.reshape(len(array), -1)]
        else:  # all inputs of ids belong to the same tokens
            lengths = np.maximum(lengths, TOKEN_BYTES * (array.size // max(1, len(array))))
    classes = 2 ** (np.ceil(2 * np.log2(np.clip(lengths, SHORTEST, LONGEST))) / 2)
    parts = []
    for length in np.unique(classes):
        rows, kind = np.flatnonzero(classes == length), (shapes, int(length))
        most = most_rows(kind, size)
        parts += [(kind, rows[i : i + most]) for i in range(0, len(rows), most)]
    return parts


def most_rows(kind, size):
    """How many rows of a kind go through a model together, where `size` would do for short ones."""
    return max(1, min(size, BATCH_BYTES // kind[1]))


def join(chosen, answers, count):
    """Puts rows back into their places; what is shorter than others is padded as in a batch.

    Args:
        chosen: list of numbers of rows; `answers`: their dicts of arrays, padded with -1, 0.0 and "".
    """
    if len(answers) == 1:
        return answers[0]
    joined = {}
    for name, first in answers[0].items():
        shape = np.max([answer[name].shape[1:] for answer in answers], axis=0, initial=0) if first.ndim > 1 else ()
        filler = {"O": b"", "i": -1, "f": 0.0}[first.dtype.kind]
        joined[name] = np.full((count, *map(int, shape)), filler, first.dtype)
        for rows, answer in zip(chosen, answers, strict=True):
            joined[name][(rows, *map(slice, answer[name].shape[1:]))] = answer[name]
    return joined


def answers_of(run, jobs):
    """Runs one batch; gives for each job its answers, or the exception that it met.

    Where a batch is refused each job is asked alone, so that nobody is refused for a neighbour.
    """
    names = jobs[0].inputs
    try:
        outputs = run({name: np.concatenate([job.inputs[name] for job in jobs]) for name in names})
    except Exception as error:
        if len(jobs) > 1:
            return [answer for job in jobs for answer in answers_of(run, [job])]
        if not isinstance(error, Refusal):
            logging.getLogger(__name__).exception("A model call failed.")
            error = Refusal(500, "The model call failed; the server's log tells why.")
        return [error]
    borders = np.cumsum([job.rows for job in jobs])[:-1]
    parts = {name: np.split(array, borders) for name, array in outputs.items()}
    return [{name: part[i] for name, part in parts.items()} for i in range(len(jobs))]
