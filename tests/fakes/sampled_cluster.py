# SPDX-License-Identifier: Apache-2.0
"""The small cluster of `top_cluster` behind a client's calls: what a sampler reads, as it changes.

A test sets `second`, and readings follow it; `away` lets every call fail as a lost server does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from fakes import top_cluster
from fakes.top_cluster import NOW, SECOND

from stoker.mesh.recording.recorder import FileBlocks, Recorder
from stoker.mesh.recording.recording_file import RecordedBy
from stoker.mesh.recording.sampler import ClusterSampler
from stoker.mesh.wire import schema, schema_telemetry
from stoker.mesh.wire.schema import FieldView
from stoker.mesh.wire.schema_alerts import AlertList
from stoker.native.errors import NotFound, StokerError, Unavailable

SECRET = "s3cr3t-t0ken"


class SampledCluster:
    """A client as far as a sampler needs one."""

    def __init__(self) -> None:
        self.second = 0
        self.away: StokerError | None = None
        self.told = 0
        self.jobs_read = 0
        self.listed = top_cluster.alerts()

    @property
    def now_ns(self) -> int:
        return NOW + self.second * SECOND

    def _answer(self) -> None:
        if self.away is not None:
            raise self.away

    async def alerts(self, *, counts: bool = False) -> AlertList:
        self._answer()
        return self.listed

    async def nodes(self) -> schema.NodeList:
        self._answer()
        replace = msgspec.structs.replace
        seen = [replace(n, observed_ns=self.now_ns) for n in top_cluster.nodes()]
        return schema.NodeList(nodes=tuple(seen))

    async def devices(self) -> schema.DeviceList:
        self._answer()
        found = top_cluster.devices()
        watts = 100.0 + self.second
        return schema.DeviceList(
            devices=(msgspec.structs.replace(found[0], power_w=watts), *found[1:])
        )

    async def pages(self, request: schema.ListRequest) -> AsyncIterator[schema.JobList]:
        self._answer()
        self.jobs_read += 1
        yield schema.JobList(jobs=tuple(top_cluster.jobs()))

    async def queues(self) -> schema.QueueList:
        return schema.QueueList(queues=top_cluster.queues())

    async def cluster(self) -> schema.ClusterView:
        return top_cluster.cluster()

    async def telemetry_streams(self) -> schema_telemetry.TelemetryList:
        return top_cluster.streams()

    async def telemetry(
        self, request: schema_telemetry.TelemetryReadRequest
    ) -> schema_telemetry.TelemetryView:
        """Tell one event in every tenth second, and what the cluster tells of kernels at once."""
        self._answer()
        if request.kind == "events" and self.second % 10 == 0 and self.told <= self.second:
            self.told = self.second + 1
            data: Any = {"t_ns": self.now_ns, "what": "running", "job": 7, "reason": "as said"}
        elif request.kind == "kernels" and request.after is None:
            rows = [{**each.row} for each in top_cluster.summaries()]
            messages = [self._message(at + 1, row) for at, row in enumerate(rows)]
            return schema_telemetry.TelemetryView(kind="kernels", messages=tuple(messages))
        else:
            return schema_telemetry.TelemetryView(kind=request.kind)
        message = self._message(self.told, data)
        return schema_telemetry.TelemetryView(kind=request.kind, messages=(message,))

    def _message(self, number: int, data: Any) -> schema_telemetry.TelemetryMessage:
        return schema_telemetry.TelemetryMessage(
            seq=number, t_ns=data.get("t_ns", self.now_ns), subject="s", data=data
        )

    async def get(self, job: int, *, trace: bool) -> schema.JobView:
        self._answer()
        found = next((each for each in top_cluster.jobs() if each.job == job), None)
        if found is None:
            raise NotFound(f"there is no job {job}")
        spec = msgspec.structs.replace(found.spec, env={"PASSWORD": SECRET})
        return msgspec.structs.replace(found, spec=spec, trace=top_cluster.trace())

    async def explain(self, job: int) -> schema.ExplainView:
        return msgspec.structs.replace(top_cluster.explanation(), job=job)

    async def readings(
        self, node: str, device: str, history: tuple[str, ...], since_ns: int
    ) -> schema.ReadingsView:
        if node == "n3":
            raise Unavailable("node n3 does not answer")
        points = tuple(
            (NOW + at * SECOND, 100.0 + at)
            for at in range(-60, self.second + 1)
            if NOW + at * SECOND > since_ns
        )
        return schema.ReadingsView(
            node=node, device=device, t_ns=self.now_ns, state="ok", sim=node == "n1",
            fields={"power_w": FieldView(value=100.0 + self.second, unit="W", t_ns=self.now_ns)},
            history={"power_w": points},
        )  # fmt: skip

    async def topology(self, node: str) -> schema.TopologyView:
        return msgspec.structs.replace(top_cluster.topology(), node=node)


async def recorded(
    seconds: int, away: range = range(0), user: str = "root", details: int = 64
) -> bytes:
    """Return a recording of this cluster, one sample a second."""
    fake = SampledCluster()
    made = bytearray()
    sampler = ClusterSampler(fake, details=details, now_ns=lambda: fake.now_ns)  # type: ignore[arg-type]
    about = RecordedBy("0.1.0", user, 1.0, "bus")
    recorder = Recorder(sampler, FileBlocks(made.extend), about, lambda: fake.now_ns)
    for second in range(seconds):
        fake.second = second
        fake.away = Unavailable("the broker is gone") if second in away else None
        await recorder.step()
    recorder.flush()
    return bytes(made)
