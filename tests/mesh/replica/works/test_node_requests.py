# SPDX-License-Identifier: Apache-2.0
"""The NUMA nodes in a report of a node: how many CPUs are beside each device."""

from __future__ import annotations

from msgspec.structs import replace

from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works.node_requests import node_requests
from stoker.scheduler import records
from stoker.scheduler.core import Core
from stoker.scheduler.nouns import DeviceInfo, NodeReport

GPU = DeviceInfo("GPU-1", "nvidia", "H200", numa=1, near_cpus="4-7,9", driver="560.1")
BARE = replace(GPU, near_cpus="", numa_why="NUMA node 1 is not on this machine")


def report(*devices: DeviceInfo) -> NodeReport:
    return NodeReport("n1", "boot", 1, 8000, 1 << 30, devices)


def requests(now: NodeReport, before: NodeReport | None = None) -> list[records.Request]:
    return node_requests(now, ReplicaState("c", b""), before)


def test_the_cpus_beside_a_device_are_counted() -> None:
    found = [r for r in requests(report(BARE, GPU)) if isinstance(r, records.DeviceTraits)]
    assert [r.near_cpus for r in found] == [0, 5]


def test_cpus_that_are_not_there_any_more_are_taken_back() -> None:
    core = Core()
    before: NodeReport | None = None
    gone = replace(BARE, driver="")
    for now in (report(GPU), report(BARE), report(GPU), report(gone)):
        proposal = core.propose(requests(now, before), 1, 0, measure=False)
        core.apply(proposal.commands, 1)
        (device,) = core.devices(core.nodes()[0])
        assert device.near_cpus == (5 if now.devices[0].near_cpus else 0)
        before = now
