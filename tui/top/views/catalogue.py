# SPDX-License-Identifier: Apache-2.0
"""All views by name, in the order in which help and completion list them."""

from __future__ import annotations

from typing import Final

from stoker.tui.top.view import View
from stoker.tui.top.views import (
    alerts,
    arrays,
    cluster,
    device,
    devices,
    events,
    explain,
    health,
    job,
    jobs,
    topology,
    traces,
    users,
)

VIEWS: Final[dict[str, View]] = {
    view.name: view
    for view in (
        cluster.VIEW, devices.NODE, devices.DEVICES, device.VIEW, jobs.JOBS, arrays.VIEW, job.VIEW,
        job.LOGS, jobs.WHY, explain.VIEW, users.VIEW, topology.VIEW, events.VIEW, alerts.VIEW,
        traces.VIEW, health.VIEW,
    )
}  # fmt: skip
"""All views."""
START: Final = "cluster"
"""The view that `stoker top` opens with."""
