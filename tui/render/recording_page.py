# SPDX-License-Identifier: Apache-2.0
"""The contents of a recording, as a page of text and as the object of `-o json`.

Pure. The size per device-hour is that of this very file.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from stoker.mesh.recording.recording_file import RecordingFile
from stoker.tui.render import text, units

HOUR_NS = 3_600_000_000_000
NAMES_CELLS = 56
"""The room for names; the first one is always shown."""
SOURCES = {"ring": "the ring of a node", "bus": "the bus"}


def described(file: RecordingFile) -> dict[str, Any]:
    """Return everything that `stoker replay` says, as an object."""
    span_ns = file.last_ns - file.first_ns
    return {
        "schema": "stoker/v1",
        "file": file.name,
        "bytes": file.size,
        "from_ns": file.first_ns,
        "to_ns": file.last_ns,
        "span_ns": span_ns,
        "recorded_by": {
            "version": file.about.version, "user": file.about.user, "source": file.about.source,
            "interval_s": file.about.interval_s,
        },
        "redacted": file.about.redacted,
        "sim": sim(file),
        "nodes": list(file.nodes),
        "devices": list(file.devices),
        "jobs": [int(job) if job.isdigit() else job for job in file.jobs],
        "events": len(file.events),
        "kernel_summaries": len(file.summaries),
        "bytes_per_device_hour": bytes_per_device_hour(file),
        "gaps": [msgspec.structs.asdict(gap) for gap in file.gaps],
        "damages": [each._asdict() for each in file.damages],
    }  # fmt: skip


def bytes_per_device_hour(file: RecordingFile) -> float | None:
    """Return the bytes of the file for an hour of one device; None without time or device."""
    span_ns = file.last_ns - file.first_ns
    hours = span_ns / HOUR_NS * len(file.devices)
    return file.size / hours if hours else None


def sim(file: RecordingFile) -> bool:
    """Return True if any device of the last moment is simulated."""
    rows = file.state(file.last_ns).get("devices", {}).values()
    return any(msgspec.json.decode(row).get("sim") for row in rows)


def lines(file: RecordingFile) -> list[str]:
    """Return the page of `stoker replay`."""
    about, rate = file.about, bytes_per_device_hour(file)
    source = SOURCES.get(about.source, "somewhere")
    told = f"{units.number(len(file.events))} events, "
    told += f"{units.number(len(file.summaries))} summaries of kernels"
    per_hour = f", {units.size(rate)} for each hour of a device" if rate is not None else ""
    shown = [
        ("file", f"{file.name}{'  SIM' if sim(file) else ''}{'  redacted' * about.redacted}"),
        ("made by", f"{about.user} with stoker {about.version}, from {source}"),
        ("time", span(file.first_ns, file.last_ns)),
        ("nodes", named(file.nodes)),
        ("devices", named(file.devices)),
        ("jobs", named(file.jobs)),
        ("told", told),
        ("size", f"{units.size(file.size)}{per_hour}"),
        *[("gap", f"{span(gap.from_ns, gap.to_ns)}: {gap.why}") for gap in file.gaps],
        *[("damage", f"{each.size} bytes at byte {each.offset}: {each.why}; they are left out")
          for each in file.damages],
    ]  # fmt: skip
    if not file.gaps and not file.damages:
        shown.append(("gaps", "none"))
    return [f"{label:<9}{words}" for label, words in shown]


def page(shown: Sequence[str], width: int | None) -> str:
    """Return lines as they are printed, wrapped for a terminal of `width` columns."""
    clean = map(text.clean, shown)
    return "".join(f"{text.wrap(line, width, 9) if width else line}\n" for line in clean)


def span(from_ns: int, to_ns: int) -> str:
    """Return two times of day and what lies between: `2026-11-26 14:03:05 to 14:04:05, 1m 00s`."""
    first, last = (datetime.fromtimestamp(each // 10**9) for each in (from_ns, to_ns))
    day = "%Y-%m-%d " if first.date() != last.date() else ""
    length = units.duration(to_ns - from_ns)
    return f"{first:%Y-%m-%d %H:%M:%S} to {last.strftime(day + '%H:%M:%S')}, {length}"


def named(names: Sequence[str]) -> str:
    """Return a count and as many of the names as fit on a line."""
    if not names:
        return "none"
    shown = 1
    while shown < len(names) and len(", ".join(names[: shown + 1])) <= NAMES_CELLS:
        shown += 1
    more = f", and {len(names) - shown} more" if len(names) > shown else ""
    return f"{len(names)}: {', '.join(names[:shown])}{more}"
