# SPDX-License-Identifier: Apache-2.0
"""One progress bar on stderr, for verbs that take seconds; stdout holds only the result.

On anything but a terminal it draws nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[float], None]
"""A function that adds finished steps to the bar."""


@contextmanager
def progress(title: str, total: float) -> Iterator[Advance]:
    """A bar of `total` steps, which disappears when the block ends."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(title, total=total)
        yield lambda steps: bar.advance(task, steps)
