# SPDX-License-Identifier: Apache-2.0
"""A terminal that follows jobs: its signals, the outages it sits out, its lines on stderr.

A job is never stopped because nobody follows it any more.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

from stoker.mesh.client.client import Client
from stoker.tui.render import text

FOLLOW_PATIENCE_S = 3600.0
"""The longest outage of the node that `run`, `logs -f` and `wait` sit out."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def catch_signals() -> list[int]:
    """Let a signal cancel this task, not the job; returns the list that signals are added to."""
    caught: list[int] = []
    task = asyncio.current_task()
    assert task is not None

    def stop(number: int) -> None:
        caught.append(number)
        task.cancel()

    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    return caught


async def together(*calls: Coroutine[Any, Any, int]) -> list[int]:
    """Run all calls to their end, or raise the first error and cancel the rest."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def be_patient(client: Client) -> None:
    """Let the client sit out an outage of the node, and tell of it."""
    client.patience_s = FOLLOW_PATIENCE_S
    client.on_trouble = lambda error: warn(f"{error.message}; trying again (Ctrl-C leaves)")


def say_dropped(job: int, dropped: int) -> None:
    """Tell how much of a job's output its limit dropped."""
    if dropped:
        warn(f"job {job} wrote {dropped} bytes past its output limit; they were not kept")


def warn(words: str) -> None:
    """Print a line on stderr, made safe for a terminal."""
    text.tell(words)
