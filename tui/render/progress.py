# SPDX-License-Identifier: Apache-2.0
"""One progress bar on stderr, for commands that work for seconds; stdout stays the result's alone.

On anything but a terminal it draws nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[float], None]
"""By how much of the total the work went on."""


@contextmanager
def progress(title: str, total: float) -> Iterator[Advance]:
    """A bar of `total` steps while the block runs; it is gone afterwards."""
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
