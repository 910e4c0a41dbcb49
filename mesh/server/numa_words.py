# SPDX-License-Identifier: Apache-2.0
"""The NUMA binding of a placed task, for people: which CPUs and memory it has, or why not.

Pure. The node binds by the same plan; what it reports now is said.
"""

from __future__ import annotations

from stoker.scheduler.nouns import Decision, JobSpec, NodeReport
from stoker.scheduler.numa_plan import numa_plan, plan_words


def numa_words(report: NodeReport | None, spec: JobSpec, decision: Decision) -> str:
    """Return how the task is bound; empty if it has no card, or its node is not known."""
    if report is None:
        return ""
    indexes = [share.index for share in decision.devices if share.index < len(report.devices)]
    devices = [report.devices[index] for index in indexes]
    if all(device.kind == "cpu" for device in devices):
        return ""
    sim = " (SIM)" if any(device.sim for device in devices) else ""
    return plan_words(numa_plan(spec, devices)) + sim
