# SPDX-License-Identifier: Apache-2.0
"""Only what is shown is read, never twice at once; a lost server and its return are told."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from fakes import top_cluster

from stoker.mesh.wire import schema
from stoker.native.errors import BadRequest, NotFound, Unavailable
from stoker.tui.top import reader as reader_module
from stoker.tui.top.answers import Answers
from stoker.tui.top.reader import Reader, Wanted
from stoker.tui.top.views.catalogue import VIEWS


class Cluster:
    """A client that answers from the small cluster; `fails` raises in place of an answer."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.fails: dict[str, Exception] = {}
        self.gate: asyncio.Event | None = None
        self.observation = 5
        self.listed: list[schema.ListRequest] = []

    async def _take(self, what: str) -> None:
        self.seen[what] += 1
        if what in self.fails or "all" in self.fails:
            raise self.fails.get(what) or self.fails["all"]
        if what == "readings" and self.gate is not None:
            await self.gate.wait()

    async def nodes(self) -> Any:
        await self._take("nodes")
        found = [schema.NodeView(**_fields(n, observation=self.observation))
                 for n in top_cluster.nodes()]  # fmt: skip
        return schema.NodeList(nodes=tuple(found))

    async def devices(self) -> Any:
        await self._take("devices")
        return schema.DeviceList(devices=tuple(top_cluster.devices()))

    async def pages(self, request: schema.ListRequest) -> Any:
        await self._take("jobs")
        self.listed.append(request)
        if request.arrays and "arrays" in self.fails:
            raise self.fails["arrays"]
        found = top_cluster.array() if request.select == "11-14" else top_cluster.jobs()
        chosen = [job for job in found if not request.states or job.state in request.states]
        yield schema.JobList(jobs=tuple(chosen))

    async def readings(self, node: str, device: str, history: tuple[str, ...]) -> Any:
        await self._take("readings")
        return top_cluster.readings()

    async def explain(self, job: int) -> Any:
        await self._take(f"explain {job}")
        return top_cluster.explanation()

    async def get(self, job: int, *, trace: bool = False) -> Any:
        await self._take("job")
        return top_cluster.jobs()[3]

    async def alerts(self, *, counts: bool = False) -> Any:
        await self._take("alert counts" if counts else "alerts")
        return top_cluster.alerts()

    async def queues(self) -> Any:
        await self._take("queues")
        return schema.QueueList(queues=top_cluster.queues())

    async def cluster(self) -> Any:
        await self._take("cluster")
        return top_cluster.cluster()

    async def telemetry_streams(self) -> Any:
        await self._take("streams")
        return top_cluster.streams()

    async def telemetry(self, request: Any) -> Any:
        await self._take(request.kind)
        return schema.TelemetryView(kind=request.kind)

    async def topology(self, node: str) -> Any:
        await self._take("topology")
        return top_cluster.topology()


def _fields(view: schema.NodeView, **more: Any) -> dict[str, Any]:
    return {name: getattr(view, name) for name in view.__struct_fields__} | more


def reader(cluster: Cluster) -> Reader:
    client: Any = cluster
    return Reader(client, 0.0)


def wanted(view: str, subject: str = "", explained: str = "") -> Wanted:
    return Wanted((*VIEWS[view].needs, *VIEWS[view].cursor_needs), subject, explained)


async def test_only_what_the_view_needs_is_read() -> None:
    cluster = Cluster()
    reads = reader(cluster)
    reads.want(wanted("jobs"))
    await reads.once()
    assert set(cluster.seen) == {"jobs"}
    assert reads.answers.jobs is not None and reads.answers.at_ns > 0


async def test_arrays_are_read_whole_unless_the_scheduler_knows_no_rows_of_them() -> None:
    cluster = Cluster()
    reads = reader(cluster)
    reads.want(wanted("jobs"))
    await reads.once()
    assert [each.arrays for each in cluster.listed] == [True]
    cluster.fails["arrays"] = BadRequest("unknown field `arrays`")
    await reads.once()
    await reads.once()
    assert [each.arrays for each in cluster.listed] == [True, True, False, False]
    assert reads.answers.jobs is not None and not reads.answers.refused


async def test_the_jobs_of_an_array_are_read_with_those_that_run_or_went_wrong_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    reads = reader(cluster)
    reads.want(wanted("array", "11-14"))
    await reads.once()
    assert [job.job for job in reads.answers.array or ()] == [11, 12, 13, 14]
    monkeypatch.setattr(reader_module, "ARRAY_MAX", 3)
    await reads.once()
    found = reads.answers.array or ()
    assert {11, 12} < {job.job for job in found} and len(found) == 3


async def test_a_device_named_by_its_index_is_found() -> None:
    reads = reader(Cluster())
    reads.want(wanted("device", "n1:0"))
    await reads.once()
    assert reads.answers.readings == top_cluster.readings()


async def test_a_slow_request_delays_no_other_and_is_not_sent_twice() -> None:
    cluster = Cluster()
    cluster.gate = asyncio.Event()
    reads = reader(cluster)
    reads.want(wanted("devices"))
    await reads.once()
    reads.want(wanted("device", "n1:0"))
    reads.hurry()
    for _ in range(5):
        reads.start()
        await asyncio.sleep(0)
    assert cluster.seen["readings"] == 1
    before = cluster.seen["devices"]
    reads.hurry()
    for _ in range(5):
        reads.start()
        await asyncio.sleep(0)
    assert cluster.seen["devices"] > before
    cluster.gate.set()
    await asyncio.gather(*reads.start())
    assert reads.answers.readings is not None
    await reads.close()


async def test_a_lost_server_keeps_what_was_read_and_its_return_is_told() -> None:
    cluster = Cluster()
    reads = reader(cluster)
    reads.want(wanted("jobs"))
    await reads.once()
    at_ns = reads.answers.at_ns
    cluster.fails["all"] = Unavailable("the broker is gone")
    await reads.once()
    assert reads.service.lost_ns > 0 and reads.service.why == "the broker is gone"
    assert reads.answers.jobs is not None and reads.answers.at_ns == at_ns
    lost_ns = reads.service.lost_ns
    await reads.once()
    assert reads.service.lost_ns == lost_ns, "it is lost since the first failure"
    cluster.fails.clear()
    await reads.once()
    assert reads.service.lost_ns == 0 and reads.service.back_ns > lost_ns
    assert reads.answers.at_ns > at_ns


async def test_a_refusal_is_a_reason_of_its_part_and_no_loss() -> None:
    cluster = Cluster()
    cluster.fails["topology"] = NotFound("there is no node n9")
    reads = reader(cluster)
    reads.want(wanted("topology", "n9"))
    await reads.once()
    assert reads.answers.refused == {"topology": "there is no node n9"}
    assert reads.service.lost_ns == 0
    reads.want(wanted("topology", "n1"))
    assert reads.answers.refused == {} and reads.answers.topology is None


async def test_one_node_that_is_away_is_no_lost_server() -> None:
    cluster = Cluster()
    cluster.fails["readings"] = Unavailable("node n1 does not answer")
    reads = reader(cluster)
    reads.want(wanted("device", "n1:0"))
    await reads.once()
    assert reads.answers.refused == {"readings": "node n1 does not answer"}
    assert reads.service.lost_ns == 0 and reads.answers.at_ns > 0


async def test_a_server_that_is_gone_is_lost_in_every_view() -> None:
    for view in VIEWS.values():
        cluster = Cluster()
        cluster.fails["all"] = Unavailable("the broker is gone")
        reads = reader(cluster)
        reads.want(wanted(view.name, "7" if view.subject else "", "7"))
        await reads.once()
        assert reads.service.lost_ns > 0, view.name


async def test_the_job_under_the_cursor_is_explained() -> None:
    cluster = Cluster()
    reads = reader(cluster)
    reads.want(wanted("why", explained="10"))
    await reads.once()
    assert cluster.seen["explain 10"] == 1
    assert reads.answers.explain == top_cluster.explanation()


async def test_a_node_is_heard_when_its_observation_changes_whatever_its_clock_says() -> None:
    cluster = Cluster()
    reads = reader(cluster)
    reads.want(wanted("cluster"))
    await reads.once()
    first = reads.answers.heard["n1"]
    await reads.once()
    assert reads.answers.heard["n1"] == first
    cluster.observation = 6
    await reads.once()
    assert reads.answers.heard["n1"] > first


async def test_closing_ends_what_is_open() -> None:
    cluster = Cluster()
    cluster.gate = asyncio.Event()
    reads = reader(cluster)
    reads.want(wanted("device", "n1:0"))
    reads.answers = Answers(subject="n1:0", devices=top_cluster.devices())
    tasks = reads.start()
    await asyncio.sleep(0)
    assert cluster.seen["readings"] == 1
    await reads.close()
    assert all(task.done() for task in tasks)
