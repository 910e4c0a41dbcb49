# SPDX-License-Identifier: Apache-2.0
"""The core's requests of a node's report: the node, its devices with their traits, its labels.

Pure. Guarantees that a report made twice says the same, so that a repeat changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.mesh.replica.state import ReplicaState
from stoker.scheduler import records
from stoker.scheduler.conditions import capability, version_number
from stoker.scheduler.names import hash64, label_key, name_id, vendor_number
from stoker.scheduler.nouns import DeviceInfo, NodeReport
from stoker.scheduler.numa_plan import cpu_numbers
from stoker.scheduler.policies import Kind
from stoker.scheduler.reasons import Reason

COST_LABEL = "cost"
"""The name of the label that holds the cost of a node."""
COST_MAX = (1 << 32) - 1


def node_requests(
    report: NodeReport, state: ReplicaState, before: NodeReport | None = None
) -> list[records.Request]:
    """Return the requests of a node that is up.

    Labels of the report `before` that this one lacks are cleared. A device is available unless its
    node or an administrator keeps jobs off it.
    """
    number = name_id(report.node)
    up = records.NodeUp(
        number,
        hash64(report.boot_id.encode()),
        report.incarnation,
        report.cpu_milli,
        report.memory_bytes,
        len(report.devices),
    )
    cordoned = state.book.cordoned
    devices = [
        device_set(report, index, (report.node, device.id) not in cordoned)
        for index, device in enumerate(report.devices)
    ]
    known = before.devices if before is not None else ()
    traits = [
        device_traits(number, index, device)
        for index, device in enumerate(report.devices)
        if has_traits(device) or (index < len(known) and has_traits(known[index]))
    ]
    gone = set(before.labels) - set(report.labels) if before is not None else set()
    cleared = [records.NodeLabel(number, name_id(label), clear=True) for label in sorted(gone)]
    labels = [label_set(number, label) for label in report.labels]
    cost = cost_of(report.labels)
    if cost is not None:
        labels.append(records.NodeLabel(number, name_id(COST_LABEL), cost, cost=True))
    elif before is not None and cost_of(before.labels) is not None:
        cleared.append(records.NodeLabel(number, name_id(COST_LABEL), clear=True))
    return [up, *devices, *traits, *cleared, *labels]


def label_set(node: int, label: str) -> records.NodeLabel:
    """Return the command that gives a node a label; its key makes it a domain of a level."""
    return records.NodeLabel(node, name_id(label), name_id(label_key(label)))


def cost_of(labels: Iterable[str]) -> int | None:
    """Return the cost that a node gives itself by `cost=N`, or 0 by `cheap-node=true`; else None.

    A prefix such as `gpu-orchestrator/` does not matter.
    """
    costs = []
    for label in labels:
        key, _, value = label.partition("=")
        key = key.rpartition("/")[2]
        if key == "cost" and value.isascii() and value.isdigit():
            costs.append(min(int(value[:10]), COST_MAX))
        elif (key, value) == ("cheap-node", "true"):
            costs.append(0)
    return min(costs, default=None)


def device_set(report: NodeReport, index: int, allowed: bool) -> records.DeviceSet:
    """Return the request for one device of a report; `allowed` is false if it is cordoned."""
    device = report.devices[index]
    return records.DeviceSet(
        name_id(report.node),
        index,
        memory_bytes=device.memory_bytes or 0,
        available=allowed and not device.unavailable and not device.gone,
        model=name_id(device.model) if device.model else 0,
        link=device.link,
        bus=device.bus,
        numa=0 if device.numa is None else device.numa + 1,
        reason=Reason.DEVICE_GONE if device.gone else 0,
        kind=Kind.CPU if device.kind == "cpu" else Kind.GPU,
        vendor=vendor_number(device.vendor),
    )


def has_traits(device: DeviceInfo) -> bool:
    """Return True if its node knows a trait of the device."""
    known = (device.arch, device.compute, device.driver, device.profile, device.link_gbps)
    return any((*known, device.near_cpus))


def device_traits(node: int, index: int, device: DeviceInfo) -> records.DeviceTraits:
    """Return the request for the traits of one device of a node."""
    return records.DeviceTraits(
        node,
        index,
        compute=capability(device.compute) if device.compute else 0,
        arch=name_id(device.arch) if device.arch else 0,
        profile=name_id(device.profile) if device.profile else 0,
        driver=version_number(device.driver),
        link_gbps=device.link_gbps,
        near_cpus=len(cpu_numbers(device.near_cpus)),
    )
