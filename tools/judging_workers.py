"""Processes that judge random networks, one after the other."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from typing import Any

PATIENCE = 180  # seconds for one network, far more than any should take


def judged(
    seeds: Sequence[int], jobs: int, work: Callable[..., None], *options: Any
) -> Iterator[dict[str, Any]]:
    """What came of each network, in no order; a worker that dies takes only its network along.

    Args:
        seeds: of the networks.
        jobs: how many are judged at a time.
        work: the life of a worker, given a connection and the options: seeds come, results go.
        options: what else it takes.
    """
    waiting = list(reversed(seeds))
    workers = [Worker(work, *options) for _ in range(min(jobs, len(seeds)))]
    try:
        for worker in workers:
            worker.begin(waiting.pop())
        while busy := {worker.connection: worker for worker in workers if worker.seed is not None}:
            left = min(worker.deadline for worker in busy.values()) - time.monotonic()
            ready = wait(list(busy), timeout=max(0.0, left))
            late = [w for w in busy.values() if w.deadline <= time.monotonic()]
            for worker in {id(w): w for w in (*(busy[c] for c in ready), *late)}.values():
                yield worker.end()
                if waiting:
                    worker.begin(waiting.pop())
    finally:
        for worker in workers:
            worker.stop()


class Worker:
    """A process that judges one network after the other."""

    def __init__(self, work: Callable[..., None], *options: Any) -> None:
        self.work, self.options = work, options
        self.seed: int | None = None
        self.start()

    def start(self) -> None:
        """A new process, which has the engines imported once and for all its networks."""
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=self.work, args=(theirs, *self.options), daemon=True)
        self.process.start()
        theirs.close()  # else the end of the process would not end the connection

    def begin(self, seed: int) -> None:
        """Gives it a network."""
        self.seed, self.deadline = seed, time.monotonic() + PATIENCE
        self.connection.send(seed)

    def end(self) -> dict[str, Any]:
        """What came of the network; if that was the end of the process, a new one is there."""
        seed = self.seed
        try:
            if self.connection.poll():
                result: dict[str, Any] = self.connection.recv()
                self.seed = None
                return result
            problem = f"no answer in {PATIENCE} seconds"
        except EOFError:
            self.process.join()
            problem = f"the process died with exit code {self.process.exitcode}"
        self.stop()
        self.seed = None
        self.start()
        outcome = {"outcome": "crash", "detail": problem}
        return {"seed": seed, "traits": [], "stages": {"process": outcome}, "seconds": 0.0}

    def stop(self) -> None:
        """Ends the process: one that waits for a seed by itself, any other by force."""
        self.connection.close()
        self.process.join(timeout=5 if self.seed is None else 0)
        self.process.kill()
        self.process.join()
