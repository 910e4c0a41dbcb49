# SPDX-License-Identifier: Apache-2.0
"""The states of all probe sites of a node in a file of the agent.

The file is replaced atomically and valid for a minute of its boot, so that the doctor never reports
sites that were detached when the agent died.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from stoker.probes.calls.call_records import CallState
from stoker.probes.calls.trap_cost import boot_id
from stoker.probes.catalogue import ProbeState

FILE = "sites.json"
"""The name of the file in the agent's state folder."""
BELIEVED_NS = 60_000_000_000
RENEW_NS = 20_000_000_000
"""The period after which the agent writes the file again, changed or not."""
FILE_MAX = 64 << 20


class SiteReport(msgspec.Struct, frozen=True):
    """The content of the file; `told_ns` is CLOCK_MONOTONIC."""

    boot_id: str
    told_ns: int
    probe: ProbeState
    states: list[CallState]
    dropped: dict[str, int]


def save(
    path: Path, probe: ProbeState, states: Iterable[CallState], dropped: dict[str, int]
) -> None:
    """Write the present states; raises OSError."""
    report = SiteReport(boot_id(), time.monotonic_ns(), probe, list(states), dropped)
    made = path.with_name(f"{path.name}.new")
    made.write_bytes(msgspec.json.encode(report))
    made.replace(path)


def load(path: Path) -> SiteReport | None:
    """Return the states if an agent wrote them within the last minute, else None."""
    try:
        with path.open("rb") as file:
            report = msgspec.json.decode(file.read(FILE_MAX), type=SiteReport)
    except (OSError, msgspec.DecodeError):
        return None
    age_ns = time.monotonic_ns() - report.told_ns
    if report.boot_id != boot_id() or not 0 <= age_ns <= BELIEVED_NS:
        return None
    return report
