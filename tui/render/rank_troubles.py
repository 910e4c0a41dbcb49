# SPDX-License-Identifier: Apache-2.0
"""The ranks of a job that keep others waiting now: one sentence for each.

Pure: rows `troubles` of a job in, text out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from stoker.tui.render import text, units

TROUBLES_MAX = 8
"""The most ranks with a sentence; `-o json` has all."""

Object = Mapping[str, Any]


def sentences(job: Object) -> Iterator[tuple[str, str]]:
    """Yield for each rank `slow` or `hung`, and where it is, by how much, and since when."""
    troubles = job.get("troubles") or ()
    for each in troubles[:TROUBLES_MAX]:
        yield each["kind"], _sentence(each)
    if len(troubles) > TROUBLES_MAX:
        yield "", f"and {len(troubles) - TROUBLES_MAX} more: stoker job {job['job']} -o json"


def _sentence(trouble: Object) -> str:
    since = datetime.fromtimestamp(trouble["since_ns"] / 1e9).strftime("%H:%M:%S")
    took = units.duration(trouble["named_ns"] - trouble["since_ns"])
    late = (
        f" ({units.duration(trouble['lag_ns'])} of it without a CPU)" if _is_late(trouble) else ""
    )
    return f"{_where(trouble)}: {trouble['text']}; since {since}, named after {took}{late}"


def _where(trouble: Object) -> str:
    task = trouble.get("task")
    of_task = f" (task {task})" if task not in (None, trouble["rank"]) else ""
    devices = ", ".join(trouble["devices"]) + (" (SIM)" if trouble["sim"] else "")
    return f"rank {trouble['rank']}{of_task} on {text.joined((trouble['node'], devices), ', ')}"


def _is_late(trouble: Object) -> bool:
    """Return True if whoever judged lacked a CPU for so long that a person should know."""
    return bool(trouble["lag_ns"] * 10 > trouble["named_ns"] - trouble["since_ns"])
