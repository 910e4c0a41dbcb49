# SPDX-License-Identifier: Apache-2.0
"""The reasons of rows that came without: asked for in parts, while the leader tells any."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
from fakes import top_cluster

from stoker.mesh.client.client import Client
from stoker.mesh.wire.schema import ArrayView, JobList, ListRequest
from stoker.tui.calls import job_calls, told_waits, views
from stoker.tui.top.reader import Reader

WAITING = msgspec.structs.replace(top_cluster.array()[0], state="pending", array=None, waits="")


class Queue:
    """A client with jobs that wait, of which a page tells the reasons of the newest alone."""

    def __init__(self, count: int, *, leads: bool = True) -> None:
        self.count, self.leads = count, leads
        self.asked: list[ListRequest] = []

    async def pages(self, request: ListRequest) -> AsyncIterator[JobList]:
        self.asked.append(request)
        chosen = range(self.count, 0, -1)
        if request.select != "all":
            chosen = sorted(map(int, request.select.split(",")), reverse=True)  # type: ignore[assignment]
        told = told_waits.ROWS_AT_ONCE if self.leads else 0
        yield JobList(
            jobs=tuple(
                msgspec.structs.replace(
                    WAITING, job=number, waits=f"{number} is why" if at < told else ""
                )
                for at, number in enumerate(chosen)
            )
        )


async def listed(queue: Queue) -> list[Any]:
    return (await job_calls._listed(cast("Client", queue), ListRequest(), None)).rows


def newest_first(count: int) -> list[str]:
    return [f"{number} is why" for number in range(count, 0, -1)]


async def test_every_row_of_a_list_has_its_reason() -> None:
    queue = Queue(200)
    assert [row["waits"] for row in await listed(queue)] == newest_first(200)
    assert len(queue.asked) == 1 + 3 and queue.asked[1].states == ("pending",)
    assert [row["waits"] for row in await listed(Queue(5))] == newest_first(5)


async def test_a_follower_that_tells_none_is_asked_once() -> None:
    queue = Queue(200, leads=False)
    assert {row["waits"] for row in await listed(queue)} == {""} and len(queue.asked) == 2


async def test_the_oldest_are_asked_for_where_there_are_too_many() -> None:
    queue = Queue(job_calls.WAITS_ASKED + 100)
    rows = await listed(queue)
    assert rows[-1]["waits"] == "1 is why" and rows[told_waits.ROWS_AT_ONCE]["waits"] == ""


async def test_the_live_view_has_the_reasons_of_the_oldest() -> None:
    queue = Queue(400)
    found = await Reader._jobs(cast("Reader", _reading(queue)))
    assert found["jobs"][-1].waits == "1 is why" and found["jobs"][0].waits == "400 is why"
    assert len(queue.asked) == 1 + 2


def _reading(queue: Queue) -> Reader:
    made = Reader.__new__(Reader)
    made._client, made._whole_arrays = cast("Client", queue), True
    return made


def test_an_array_lacks_the_reason_of_its_oldest_job_that_waits() -> None:
    array = ArrayView(first=5, size=9, index=0, states={"running": 1, "pending": 8}, waiting=6)
    job = msgspec.structs.replace(WAITING, state="running", array=array)
    assert told_waits.untold_job(job) == told_waits.untold(views.part(job)) == 6
    over = msgspec.structs.replace(WAITING, state="succeeded")
    assert told_waits.untold_job(over) is told_waits.untold(views.part(over)) is None
