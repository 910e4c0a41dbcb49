# SPDX-License-Identifier: Apache-2.0
"""The watch of alerts with readings of a test: what is on disk, told, and counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.alerts import alert_files, watch
from stoker.agent.alerts.alert import Acknowledgement
from stoker.agent.alerts.rule import AlertRule, AlertSettings
from stoker.agent.alerts.watch import AlertPlaces, AlertWatch
from stoker.agent.export.node_metrics import NodeReading

RULE = AlertRule("lost", "stoker.agent.events", above=5.0, where={"stoker.counter": "records_lost"})


class Bench:
    """A watch over one counter, and what it published."""

    def __init__(self, folder: Path) -> None:
        self.count, self.published, self.connected = 0, list[dict[str, Any]](), True
        self.places = AlertPlaces("node-a", folder / "agent", folder / "run")
        for place in (self.places.agent, self.places.run):
            place.mkdir(exist_ok=True)
        self.watch = self.next_agent()

    def next_agent(self) -> AlertWatch:
        return AlertWatch(
            self.places, (RULE,), AlertSettings(), read=self.read, publish=self.publish
        )

    async def read(self) -> NodeReading:
        return NodeReading(1, (), (), (), {"records_lost": self.count, "others": 99})

    def publish(self, data: bytes) -> bool:
        if self.connected:
            self.published.append(json.loads(data))
        return self.connected

    def changes(self) -> list[str]:
        return [each["change"] for each in self.published]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_a_change_is_told_once_also_by_the_next_agent(bench: Bench) -> None:
    await bench.watch.once()
    bench.count = 6
    await bench.watch.once()
    await bench.watch.once()
    await bench.next_agent().once()
    assert bench.changes() == ["firing"]
    told = bench.published[0]
    assert (told["node"], told["alert"]["value"]) == ("node-a", 6)
    assert told["alert"]["series"] == {"stoker.counter": "records_lost"}
    status = alert_files.read_status(bench.places.run)
    assert status is not None
    assert [(each.name, each.series) for each in status.rules] == [("lost", 1)]
    assert (bench.places.run / alert_files.STATUS).stat().st_mode & 0o777 == 0o600
    bench.count = 0
    await bench.next_agent().once()
    assert bench.changes() == ["firing", "resolved"]


async def test_an_acknowledgement_is_taken_from_its_file(bench: Bench) -> None:
    bench.count = 6
    await bench.watch.once()
    alert_files.write_acknowledged(bench.places.agent, {1: Acknowledgement("ann", 5, "seen")})
    await bench.watch.once()
    await bench.watch.once()
    assert bench.changes() == ["firing", "acknowledged"]
    (bench.places.agent / alert_files.ACKNOWLEDGED).write_bytes(b"{")
    await bench.watch.once()
    assert bench.changes() == ["firing", "acknowledged"]


async def test_what_the_bus_does_not_take_is_counted(bench: Bench) -> None:
    bench.count, bench.connected = 6, False
    await bench.watch.once()
    assert bench.watch.counters["alert_bus_lost"] == 1


async def test_a_full_disk_is_counted_and_the_alert_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: Path, book: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(watch.alert_files, "write_book", full)
    bench.count = 6
    await bench.watch.once()
    assert bench.changes() == ["firing"]
    assert bench.watch.counters["alert_store_failed"] == 1


async def test_a_book_that_is_damaged_begins_anew(bench: Bench) -> None:
    bench.count = 6
    await bench.watch.once()
    path = bench.places.agent / alert_files.BOOK
    path.write_bytes(path.read_bytes()[:-9])
    await bench.next_agent().once()
    assert bench.changes() == ["firing", "firing"]
