# SPDX-License-Identifier: Apache-2.0
"""The scheduler's status: what a person should know is in it, and a broker has time to elect."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stoker.mesh.server import notify, status_watch
from stoker.mesh.server.scheduler_options import SchedulerOptions
from stoker.mesh.server.status_watch import (
    BROKER_STUCK_S,
    BROKERS_STUCK_S,
    COPY_STUCK_S,
    StatusWatch,
)
from stoker.mesh.wire.schema_cluster import LogCopy, LogView


class Status:
    """A replica with a status that the test sets, and what the watch notified."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self.line = "ok"
        self.now_s = 1000.0
        self.role, self.why = "leading", "the log is silent"
        self.right = SimpleNamespace(alone=True)
        self.state = SimpleNamespace(core=SimpleNamespace(counters=_counters))
        monkeypatch.setattr(notify, "_send", lambda *lines: self.said.extend(lines))
        monkeypatch.setattr(status_watch.time, "monotonic", lambda: self.now_s)
        self.watch = StatusWatch(cast(Any, self), SchedulerOptions(folder, disk_reserve_bytes=0))

    def status(self) -> str:
        return self.line

    def restarts(self, after_s: float) -> bool:
        """True if the watch requests a restart of the broker this long after the log failed."""
        self.line = "blocked: the log is silent"
        self.watch.look()
        self.now_s += after_s
        self.watch.look()
        return any("broker-restart" in line for line in self.said)


def _counters() -> dict[str, int]:
    return {"keys_forgotten_young": 0}


@pytest.fixture
def status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Status:
    return Status(tmp_path, monkeypatch)


def test_too_few_copies_of_the_log_are_said_in_the_status(status: Status) -> None:
    status.watch.copies(1, 3)
    status.watch.leads()
    assert "STATUS=ok: the log has 1 of the 3 copies that these schedulers need" in status.said


def test_enough_copies_need_no_word(status: Status) -> None:
    status.watch.copies(3, 3)
    status.watch.leads()
    assert status.said == ["READY=1", "STATUS=ok"]


def test_a_broker_alone_is_restarted_soon(status: Status) -> None:
    assert status.restarts(BROKER_STUCK_S + 1)


def test_a_broker_beside_others_has_time_for_an_election(status: Status) -> None:
    status.right.alone = False
    assert not status.restarts(BROKERS_STUCK_S - 1)
    assert status.restarts(BROKERS_STUCK_S + 1)


def told(status: Status, behind: int | None, after_s: float) -> int:
    """Tell the watch, some time later, how far the copy of this host is; return the restarts that
    were requested by then. None: it is current."""
    status.now_s += after_s
    own = LogCopy(server="home", current=behind is None, behind=behind or 0)
    others = (LogCopy(server="a", current=True), LogCopy(server="b", current=False, behind=900))
    status.watch.copy(LogView(leader="a", copies=(*others, own)), "home")
    return sum("broker-restart" in line for line in status.said)


def test_a_broker_whose_copy_stays_behind_is_restarted(status: Status) -> None:
    assert told(status, 10, 0) == 0
    assert told(status, 20, COPY_STUCK_S) == 0
    assert told(status, 30, 1) == 1
    assert "STATUS=broker-restart: its copy of the log comes no nearer: it lacks 30 entries" in (
        status.said
    )
    assert told(status, 40, 1) == told(status, 50, COPY_STUCK_S) == 1, "it has time to begin"
    assert told(status, 60, 2) == 2


def test_a_copy_that_comes_nearer_or_is_current_needs_no_restart(status: Status) -> None:
    for behind in (100, 90, 80, None, 70, 60, 50):
        assert told(status, behind, COPY_STUCK_S + 1) == 0
    status.watch.copy(None, "home")  # no broker tells
    assert told(status, 60, COPY_STUCK_S + 1) == 0
    status.watch.copy(LogView(leader="a", copies=()), "home")  # it keeps none
    assert told(status, 70, COPY_STUCK_S + 1) == 0


def test_a_broker_without_room_on_its_disk_is_left_alone(
    status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = "the state disk has 0.0 MiB free"
    monkeypatch.setattr(status.watch, "disk", lambda: full)
    assert told(status, 10, 0) == told(status, 20, COPY_STUCK_S + 1) == 0
    full = ""
    assert told(status, 20, 1) == 1, "as soon as there is room"
