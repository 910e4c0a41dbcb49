# SPDX-License-Identifier: Apache-2.0
"""Telemetry of several kinds as one story, against a fake client that keeps messages."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.mesh.client.kept_telemetry import Told
from stoker.mesh.wire import schema_telemetry
from stoker.tui.calls import telemetry_calls

PAGE = 3


class Keeper:
    """A client whose streams tests fill; `calls` counts readings."""

    def __init__(self) -> None:
        self.streams: dict[str, list[schema_telemetry.TelemetryMessage]] = {}
        self.calls = 0
        self.gap = False

    def keep(self, kind: str, t_ns: int, number: int, *jobs: int, dropped: int = 0) -> None:
        kept = self.streams.setdefault(kind, [])
        rows = [{"job": job} for job in jobs]
        data = {"user": "eve", "origin": "o", "number": number, "dropped": dropped, "rows": rows}
        kept.append(
            schema_telemetry.TelemetryMessage(seq=len(kept) + 1, t_ns=t_ns, subject=kind, data=data)
        )

    async def telemetry(
        self, request: schema_telemetry.TelemetryReadRequest
    ) -> schema_telemetry.TelemetryView:
        self.calls += 1
        after = request.after or 0
        found = [each for each in self.streams.get(request.kind, ()) if each.seq > after]
        gap, self.gap = self.gap and bool(found), False
        return schema_telemetry.TelemetryView(
            kind=request.kind, messages=tuple(found[:PAGE]), more=len(found) > PAGE, gap=gap
        )


async def story(keeper: Any, *kinds: Any) -> list[Told]:
    return [each async for each in telemetry_calls.told(keeper, kinds, 600, follow=False)]


async def test_kinds_are_merged_by_time_over_their_pages() -> None:
    keeper = Keeper()
    for number in range(10):
        keeper.keep("events", 10 * number, number, number)
        keeper.keep("decisions", 10 * number + 5, number, 100 + number)
    told = await story(keeper, "events", "decisions", "outcomes")
    assert [each.t_ns for each in told] == sorted(each.t_ns for each in told)
    assert [each.row["job"] for each in told if each.kind == "events"] == list(range(10))
    assert len(told) == 20 and not any(each.lost for each in told)
    assert told[0].row == {"user": "eve", "job": 0}


async def test_following_tells_each_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry_calls, "FOLLOW_EVERY_S", 0)
    keeper = Keeper()
    keeper.keep("events", 1, 0, 1, 2)
    seen: list[int] = []
    kinds: Any = ("events",)
    async for told in telemetry_calls.told(keeper, kinds, 600, follow=True):  # type: ignore[arg-type]
        seen.append(told.row["job"])
        if len(seen) == 2:
            for number in range(1, 6):
                keeper.keep("events", 1 + number, number, 10 + number)
        if len(seen) == 7:
            break
    assert seen == [1, 2, 11, 12, 13, 14, 15]


async def test_losses_are_told_before_what_follows_them() -> None:
    keeper = Keeper()
    keeper.keep("events", 1, 4, 1)  # the first one that is kept: what came before is not known
    keeper.keep("events", 2, 7, 2)
    keeper.keep("events", 3, 8, 3, dropped=6)
    said = [each.lost or each.row["job"] for each in await story(keeper, "events")]
    assert said == [1, "2 messages lost", 2, "6 dropped before they were sent", 3]


async def test_a_gap_of_the_stream_is_told() -> None:
    keeper = Keeper()
    keeper.keep("events", 1, 0, 1)
    keeper.gap = True
    first, second = await story(keeper, "events")
    assert first.lost.startswith("messages may be gone: ") and second.row["job"] == 1
