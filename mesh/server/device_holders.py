# SPDX-License-Identifier: Apache-2.0
"""The jobs that hold devices which one that waits could use, among all that hold devices there.

Pure. The core names whoever holds a device there. A job that asked for an H200 waits for nobody who
holds another model, and whoever cancels such a holder gains nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works.core_request import models_of
from stoker.native.errors import BadRequest
from stoker.scheduler.book import Job
from stoker.scheduler.effects import Explained
from stoker.scheduler.nouns import DeviceInfo, JobSpec
from stoker.scheduler.reason_codes import Reason


def in_the_way(state: ReplicaState, job: Job, lines: Sequence[Explained]) -> list[Explained]:
    """Return the lines without holders of such devices alone as the job did not ask for."""
    if not any(line.reason == Reason.HOLDS for line in lines):
        return list(lines)
    spec = job.decoded_spec()
    try:
        models = set(models_of(spec, state.book.nodes.values()))
    except BadRequest:  # no device of its model is there any more, so nobody can be ruled out
        return list(lines)
    return [
        line
        for line in lines
        if line.reason != Reason.HOLDS
        or any(_would_do(device, spec, models) for device in _held(state, line))
    ]


def _would_do(device: DeviceInfo | None, spec: JobSpec, models: set[str]) -> bool:
    """Return False if kind, vendor or model of a device differ from those that were asked for."""
    if device is None:
        return True
    kind = "cpu" if device.kind == "cpu" else "gpu"
    return (
        spec.device_kind in (kind, "any")
        and (not models or device.model in models)
        and (not spec.vendors or device.vendor in spec.vendors)
    )


def _held(state: ReplicaState, line: Explained) -> list[DeviceInfo | None]:
    """Return what a holder has of the line's node; None stands for what is not known."""
    node = state.node_name(line.node)
    report, holder = state.book.nodes.get(node), state.book.live(line.job)
    if report is None or holder is None:
        return [None]
    decisions = [rank.decision for rank in holder.ranks]
    if not decisions and holder.decision is not None:
        decisions = [holder.decision]
    here = [decision for decision in decisions if decision.node == node]
    shares = [share for decision in here for share in decision.devices]
    known = report.devices
    return [known[each.index] if each.index < len(known) else None for each in shares] or [None]
