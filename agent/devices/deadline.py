# SPDX-License-Identifier: Apache-2.0
"""Calls that may hang: each has a thread of its own, and its caller waits until a deadline.

Invariant: a call that never returns costs its caller the deadline once, and one thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Task(Generic[T]):
    """One call. When it is `over` it has either a `result` or the `error` that it raised."""

    def __init__(self, name: str, call: Callable[[], T]) -> None:
        self.name = name
        self.result: T | None = None
        self.error: BaseException | None = None
        self.over = threading.Event()
        self._call = call
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:
            self.error = error
        finally:
            self.over.set()


def within(
    calls: Sequence[tuple[str, Callable[[], T]]],
    seconds: float,
    longer: Mapping[str, float] | None = None,
) -> list[Task[T]]:
    """Start all calls at once and wait until the deadline; a task that is not `over` afterwards
    still runs. `longer`: name of a call -> its own time limit in seconds."""
    begin = time.monotonic()
    tasks = [Task(name, call) for name, call in calls]
    for task in tasks:
        end = begin + (longer or {}).get(task.name, seconds)
        task.over.wait(max(0.0, end - time.monotonic()))
    return tasks
