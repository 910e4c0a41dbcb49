# SPDX-License-Identifier: Apache-2.0
"""The links between the devices of a placed job, for people: which one they share, and its width.

Pure. What a node reports now is said; the core decided by the same report or an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.mesh.replica import departed_nodes
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire.schema import ReasonView
from stoker.scheduler.book import Job
from stoker.scheduler.nouns import Decision, DeviceInfo


def link_lines(state: ReplicaState, job: Job) -> Iterator[ReasonView]:
    """Yield a line for each node of a job that asked for a link; none for other jobs."""
    spec = job.decoded_spec()
    if not job.decision or not (spec.same_link or spec.topology != "none"):
        return
    decisions = [rank.decision for rank in job.ranks] or [job.decision]
    for node in dict.fromkeys(decision.node for decision in decisions):
        devices = [*_devices(state, node, decisions)]
        if devices:
            text = _words(devices, node)
            yield ReasonView(code="linked", text=text, node=node, remedies=(), data={})


def _devices(state: ReplicaState, node: str, decisions: list[Decision]) -> Iterator[DeviceInfo]:
    for decision in decisions:
        report = departed_nodes.report_of(state, decision)
        for share in decision.devices if decision.node == node else ():
            if report is not None and share.index < len(report.devices):
                yield report.devices[share.index]


def _words(devices: list[DeviceInfo], node: str) -> str:
    links = {device.link for device in devices}
    if len(links) > 1 or 0 in links:
        return f"its devices on node {node} share no link"
    least = min(device.link_gbps for device in devices)
    width = f"{least} GB/s between each two" if least else "its bandwidth is not known"
    return f"its devices on node {node} share link {links.pop()}: {width}"
