# SPDX-License-Identifier: Apache-2.0
"""The scheduler's status for the supervisor and the log file: disk, broker, halts.

Owns when a person or the supervisor must act: a halt is logged again every minute, and a broker
whose log stays silent although the disk has room must be restarted.
"""

from __future__ import annotations

import os
import time

from stoker.mesh.replica.replica import Replica
from stoker.mesh.server import notify
from stoker.mesh.server.scheduler_options import SchedulerOptions
from stoker.mesh.wire.schema_cluster import LogView
from stoker.native.structured_log import structlog

DISK_RESERVE_SHARE = 0.05
"""The reserve is at most this part of the disk."""
BROKER_STUCK_S = 6.0
"""A log that is silent for this long, with room on the disk, needs a restart of its broker."""
BROKERS_STUCK_S = 30.0
"""Where several schedulers share a log, its servers elect a leader in 4 to 16 s, and a broker that
restarts meanwhile begins the election anew; so its silence may last this long."""
COPY_STUCK_S = 30.0
"""A copy of the log that is not current and comes no nearer for so long needs a restart of its
broker. One whose disk was full ceases to keep anything, and serves all else until it is restarted.
"""
BROKER_AGAIN_S = 11.0
"""The pause between two requests for a restart; a broker younger than 10 s is not restarted."""
HALT_AGAIN_S = 60.0
"""A halt is logged again after this time."""

HALT_HINT = "keep a copy of the state folder; `stoker down`, `stoker up` reads the log again"
UPGRADE_HINT = "nothing was changed here, and the other servers go on"

log = structlog.get_logger("scheduler")


class StatusWatch:
    """The status of one scheduler; call `look` once a second."""

    def __init__(self, replica: Replica, options: SchedulerOptions) -> None:
        self._replica = replica
        self._options = options
        self._status = ""
        self._note = ""
        self._halt_logged_s = 0.0
        self._restart_requested_s = 0.0
        self._stuck_since_s: float | None = None
        self._behind_since_s: float | None = None
        self._behind_least = 0
        self._keys_forgotten_young = 0

    def leads(self) -> None:
        """Note that the replica leads, or follows a leader: the process is ready."""
        self._stuck_since_s = None
        self._status = self._line()
        notify.ready(self._status)

    def copies(self, found: int, wanted: int) -> None:
        """Note how many copies the log has; fewer than `wanted` are said in the status."""
        if found < wanted:
            self._note = f"the log has {found} of the {wanted} copies that these schedulers need"
            log.warning("the log has too few copies", found=found, wanted=wanted)

    def halts(self) -> None:
        """Note that the replica halts."""
        self._log_halt()
        notify.status(self._replica.status())

    def look(self) -> None:
        """Notify the supervisor of the status, and log what an administrator should know."""
        self._watch_broker()
        self._watch_keys()
        halted = self._replica.role == "halted"
        if halted and time.monotonic() - self._halt_logged_s > HALT_AGAIN_S:
            self._log_halt()
        status = self._line()
        if not self._status and self._replica.role == "following" and status.startswith("ok"):
            self.leads()
        if status != self._status and self._status:
            log.info("status changed", status=status)
            notify.status(status)
            self._status = status
        notify.alive()

    def copy(self, log: LogView | None, home: str) -> None:
        """Note what the brokers tell of the copies of the log; `home` has that of this host."""
        found = [each for each in log.copies if each.server == home] if log is not None else []
        if not found or found[0].current:
            self._behind_since_s = None
            return
        now_s, behind = time.monotonic(), found[0].behind
        if self._behind_since_s is None or behind < self._behind_least:
            self._behind_since_s, self._behind_least = now_s, behind
        elif now_s - self._behind_since_s > COPY_STUCK_S:
            why = f"its copy of the log comes no nearer: it lacks {behind} entries"
            if self._restart_broker(why, now_s):
                self._behind_since_s = None

    def disk(self) -> str:
        """Return why the state disk takes no more jobs, or an empty string."""
        try:
            found = os.statvfs(self._options.state)
        except OSError as error:
            return f"the state disk cannot be read: {error.strerror}"
        size, free = found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail
        reserve = min(self._options.disk_reserve_bytes, int(size * DISK_RESERVE_SHARE))
        if free >= reserve:
            return ""
        have, want = free / (1 << 20), reserve / (1 << 20)
        room = f"{have:.1f} MiB free, {want:.1f} MiB are kept in reserve"
        return f"the state disk has {room}: make room at {self._options.state}"

    def _line(self) -> str:
        """Return the status, with what an administrator should know although all works."""
        status = self._replica.status()
        return f"ok: {self._note}" if status == "ok" and self._note else status

    def _log_halt(self) -> None:
        self._halt_logged_s = time.monotonic()
        log.critical(
            "halted: running jobs go on, but nothing is placed, and no end of a job is recorded",
            reason=self._replica.why,
            hint=UPGRADE_HINT if self._replica.right.is_beyond else HALT_HINT,
        )

    def _watch_keys(self) -> None:
        young = self._replica.state.core.counters()["keys_forgotten_young"]
        if young > self._keys_forgotten_young:
            log.warning("idempotency keys were forgotten within an hour", count=young)
            self._keys_forgotten_young = young

    def _watch_broker(self) -> None:
        """Request a restart of a broker that stays silent after a full disk has room again."""
        now_s = time.monotonic()
        blocked = self._replica.status().startswith("blocked")
        if not blocked or self._replica.role == "halted":
            self._stuck_since_s = None
            return
        if self._stuck_since_s is None:
            self._stuck_since_s = now_s
        if now_s - self._stuck_since_s > self._patience_s():
            self._restart_broker(self._replica.why, now_s)

    def _restart_broker(self, why: str, now_s: float) -> bool:
        """Request a restart of the broker; False if it would help nothing, or is too early."""
        if self.disk() or now_s - self._restart_requested_s <= BROKER_AGAIN_S:
            return False
        self._restart_requested_s = now_s
        log.error("requesting a restart of the broker", why=why)
        notify.status(f"broker-restart: {why}")
        return True

    def _patience_s(self) -> float:
        """Return how long the log may be silent before its broker is restarted."""
        return BROKER_STUCK_S if self._replica.right.alone else BROKERS_STUCK_S
