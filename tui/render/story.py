# SPDX-License-Identifier: Apache-2.0
"""The story of a demo as one screen: who took part, what happened when, and what it shows not.

Pure. Times are seconds since the first moment.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from stoker.tui.render.text import clean

COLUMNS = 100
LABEL = 11
"""The columns of the labels at the left."""


def render(
    title: str,
    hosts: Sequence[str],
    moments: Sequence[tuple[int, str]],
    findings: Sequence[tuple[str, str]],
) -> str:
    """Return the screen; `moments` are (ns, text) in their order, `findings` (label, text)."""
    rows = [*((("hosts", text)) for text in hosts)]
    lines = [title, "", *_labelled(rows), ""]
    began = moments[0][0] if moments else 0
    for t_ns, text in moments:
        lines += _wrapped(f"{(t_ns - began) / 1e9:8.2f} s", text)
    return "\n".join([*lines, "", *_labelled(findings), ""])


def _labelled(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield rows with their labels, each of which stands once."""
    last = ""
    for label, text in rows:
        yield from _wrapped("" if label == last else label, text)
        last = label


def _wrapped(label: str, text: str) -> list[str]:
    start = f"{label:<{LABEL}}"
    return textwrap.wrap(
        clean(text), COLUMNS, initial_indent=start, subsequent_indent=" " * LABEL
    ) or [start.rstrip()]
