# SPDX-License-Identifier: Apache-2.0
"""The power loop with its inputs from the agent's parts."""

from __future__ import annotations

from collections.abc import Callable

from stoker.agent.agent_settings import AgentSettings
from stoker.agent.jobs.start_records import StartRecords
from stoker.agent.link.node_telemetry import NodeTelemetry
from stoker.agent.power.inputs import PowerInputs
from stoker.agent.power.power_loop import PowerLoop
from stoker.agent.power.setters.job_limits import JobLimits
from stoker.agent.power.user_names import named
from stoker.agent.state.lease import Lease
from stoker.agent.tracing.trace_thread import TraceThread


def start_power(
    setting: AgentSettings,
    telemetry: NodeTelemetry,
    tracer: TraceThread,
    starts: StartRecords,
    lease: Lease,
    *,
    connected: Callable[[], bool],
) -> PowerLoop:
    """Start and return the power loop; `connected`: True while the broker is."""
    devices = telemetry.devices
    samplers = devices.samplers
    limits = JobLimits(
        setting.state.instance,
        setting.jobs_cgroup,
        lambda id: next((each.kind for each in devices.known if each.id == id), None),
        starts,
        tracer.throttle,
        samplers.readings,
    )
    inputs = PowerInputs(
        setting.agent,
        setting.state.run,
        setting.boot_id,
        cards=samplers.cards,
        readings=samplers.readings,
        holders=lambda: named(starts.holders()),
        connected=connected,
        lease=lease,
        job_limit=limits.of,
    )
    loop = PowerLoop(inputs, setting.config.power)
    loop.start()
    return loop
