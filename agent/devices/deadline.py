# SPDX-License-Identifier: Apache-2.0
"""Calls that may hang, each on a thread of its own, waited for until a deadline.

Invariant: a call that never returns costs its caller the deadline once, and one thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Task(Generic[T]):
    """One call under way; `result` once it is over, `error` if it raised."""

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
    """All at once; those that are not `over` afterwards are still on their way. `longer` gives
    some of them, by name, another time."""
    begin = time.monotonic()
    tasks = [Task(name, call) for name, call in calls]
    for task in tasks:
        end = begin + (longer or {}).get(task.name, seconds)
        task.over.wait(max(0.0, end - time.monotonic()))
    return tasks
