# SPDX-License-Identifier: Apache-2.0
"""The audit log of jobs: kills, refused devices, device opens and Xids that the kernel reported.

Critical notices are logged one by one. All opens of device files are counted, and the first open of
each device by each job is logged. Past `PAIRS_MAX` pairs of job and device, first opens are logged
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from stoker.native.structured_log import structlog
from stoker.probes.host.notices import Notice

PAIRS_MAX = 4096

_log = structlog.get_logger("audit")

_EVENTS = {
    "refused_open": "a job was refused a device",
    "oom_kill": "memory ran out and a job's process was chosen",
    "signal": "a job's process was sent a deadly signal",
    "killed_exit": "a job's process ended by a signal",
    "xid": "the NVIDIA driver reports an error",
}


class Audit:
    """Logs notices; `job_of` names a job by the id of its cgroup, or None where it is not known."""

    def __init__(self, counters: dict[str, int], job_of: Callable[[int], int | None]) -> None:
        self._counters = counters
        self._job_of = job_of
        self._opened: set[tuple[int, tuple[int, int] | None]] = set()
        for kind in (*_EVENTS, "device_open"):
            counters.setdefault(f"seen_{kind}", 0)

    def take(self, notices: Iterable[Notice]) -> None:
        """Count each notice and log those that are worth a line."""
        for notice in notices:
            self._counters[f"seen_{notice.kind}"] += 1
            if notice.kind != "device_open":
                _log.warning(_EVENTS[notice.kind], **self._fields(notice))
            elif self._is_first(notice):
                _log.info("a job opens a device", **self._fields(notice))

    def _is_first(self, notice: Notice) -> bool:
        pair = (notice.job, notice.device)
        if pair in self._opened:
            return False
        if len(self._opened) >= PAIRS_MAX:
            self._opened.clear()
        self._opened.add(pair)
        return True

    def _fields(self, notice: Notice) -> dict[str, object]:
        fields = {
            name: value
            for name, value in msgspec.structs.asdict(notice).items()
            if value not in (None, "")
        }
        fields["cgroup"] = fields.pop("job")
        fields.pop("kind")
        job = self._job_of(notice.job)
        return fields if job is None else {"job": job, **fields}
