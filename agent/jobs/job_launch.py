# SPDX-License-Identifier: Apache-2.0
"""The launch of a job: its specification and its grant as one order to the spawner.

Pure. The environment of a job is a clean base, then the user's variables, then those of the granted
devices, then stoker's own; a user's STOKER_* variables are not passed on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from stoker.agent.devices import visibility
from stoker.agent.devices.host.device_files import DRM_MAJOR
from stoker.agent.jobs import gang_environment, gang_launch
from stoker.agent.jobs.attempt_folders import folder_name
from stoker.agent.jobs.spawner_messages import Exited, Launch
from stoker.agent.state.job_bounds import NodeBounds
from stoker.native.errors import BadRequest
from stoker.probes.kernels.tracer_environment import Offer, offer
from stoker.scheduler.job_path import default_path
from stoker.scheduler.nouns import (
    DeviceInfo,
    DeviceShare,
    JobSpec,
    Outcome,
    Owner,
    StartJob,
)
from stoker.scheduler.numa_plan import NumaPlan, cpu_list, numa_plan

LANG = "C.UTF-8"
LOADER_PATH = "LD_LIBRARY_PATH"


class Home(msgspec.Struct, frozen=True):
    """An owner's entry in the user database. `cache`: the folder in which compilers of GPU runtimes
    keep their output if the home folder cannot take it (PoCL finds no device without one); else
    ""."""

    folder: str = "/"
    shell: str = "/bin/sh"
    cache: str = ""


class JobPlace(msgspec.Struct, frozen=True):
    """The folders and libraries of this node's jobs. `layer`: the OpenCL layer, in a folder that
    jobs can read. `tracers`: the other tracers by the names of `tracer_environment.LIBRARIES`.
    `simulated`: the variables that lead a job with a simulated card to the simulated drivers
    (SIM)."""

    node: str
    jobs: str
    segments: str
    layer: str = ""
    tracers: Mapping[str, str] = msgspec.field(default_factory=dict)
    simulated: Mapping[str, str] = msgspec.field(default_factory=dict)
    bounds: NodeBounds = msgspec.field(default_factory=NodeBounds)
    launcher: tuple[str, ...] = ()
    """The words that begin `rank_launcher.py`, as jobs can read it."""


def launch(
    start: StartJob, granted: Sequence[DeviceInfo], home: Home, place: JobPlace, traced: bool
) -> Launch:
    """Return the order to start this attempt; the spawner makes its folder when it is needed."""
    spec, owner, bounds = start.spec, start.owner, place.bounds
    name = folder_name(start.key)
    numa = _bound(spec, granted)
    segments = f"{place.segments}/{name}" if traced else ""
    return Launch(
        job=start.job,
        attempt=start.attempt,
        task=start.task,
        placing=start.placing,
        argv=gang_launch.argv(start, place.launcher),
        env=environment(start, granted, home, place, segments),
        cwd=spec.cwd,
        uid=owner.uid,
        gid=owner.gid,
        folder=f"{place.jobs}/{name}",
        groups=owner.groups,
        umask=spec.umask,
        stdin=spec.stdin and start.task == 0,
        cpu_milli=spec.cpu_milli,
        memory_bytes=bounds.memory.enforced(spec.memory_bytes),
        memory_default=bounds.memory.default,
        pids=bounds.pids.enforced(spec.pids),
        pids_default=bounds.pids.default,
        user_processes=bounds.user,
        devices=nodes(granted),
        time_limit_s=spec.time_limit_s,
        grace_s=spec.grace_s,
        output_bytes_max=spec.output_bytes_max,
        trace_folder=segments,
        fenced=spec.must_fence,
        gathers=start.gang is not None,
        cpus=numa.cpus,
        memory_nodes=cpu_list(numa.memory_nodes),
        numa_required=numa.required,
    )


def _bound(spec: JobSpec, granted: Sequence[DeviceInfo]) -> NumaPlan:
    """Return the plan of its NUMA binding; BadRequest if it requires one that cannot be."""
    plan = numa_plan(spec, granted)
    if spec.numa == "require" and not plan.cpus:
        raise BadRequest(f"it requires CPUs beside its devices: {'; '.join(plan.why)}")
    return plan


def environment(
    start: StartJob, granted: Sequence[DeviceInfo], home: Home, place: JobPlace, segments: str
) -> dict[str, str]:
    """Return the job's whole environment; TMPDIR is not set, so programs use /tmp."""
    spec = start.spec
    variables = base(start.owner, home)
    for name, value in spec.env.items():
        if not name.startswith("STOKER_"):
            variables[name] = value
    variables.update(visibility.environment(granted))
    if any(device.sim for device in granted):
        variables.update(_simulated(place, variables))
    if segments:
        variables.update(_offer(spec, granted, place, segments, variables).variables)
    variables.update(gang_environment.variables(start))
    variables.update(gang_launch.variables(start))
    variables["STOKER_JOB_ID"] = str(start.job)
    variables["STOKER_ATTEMPT"] = str(start.attempt)
    variables["STOKER_NODE"] = place.node
    if spec.array_size:
        variables["STOKER_ARRAY_ID"] = str(start.job - spec.array_place)
        variables["STOKER_ARRAY_INDEX"] = str(spec.array_index)
        variables["STOKER_ARRAY_COUNT"] = str(spec.array_size)
    return variables


def base(owner: Owner, home: Home) -> dict[str, str]:
    """Return the variables that a login sets, and nothing of the agent's own environment."""
    variables = {
        "PATH": default_path(owner.uid),
        "HOME": home.folder,
        "USER": owner.user,
        "LOGNAME": owner.user,
        "SHELL": home.shell,
        "LANG": LANG,
    }
    if home.cache:
        variables["POCL_CACHE_DIR"] = f"{home.cache}/pocl"
        variables["CUDA_CACHE_PATH"] = f"{home.cache}/cuda"
    return variables


def _simulated(place: JobPlace, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the simulated drivers' variables; their folder precedes the job's own libraries."""
    own = variables.get(LOADER_PATH, "")
    loader = dict(place.simulated)
    if own and LOADER_PATH in loader:
        loader[LOADER_PATH] += f":{own}"
    return loader


def wants_trace(spec: JobSpec, place: JobPlace) -> bool:
    """True if a tracer is offered to this job: it has not refused, and there is one."""
    return spec.trace != "off" and bool(place.layer or place.tracers)


def grant(devices: Sequence[DeviceInfo], shares: Sequence[DeviceShare]) -> tuple[DeviceInfo, ...]:
    """Return the devices of a decision's shares; BadRequest if this node lacks one."""
    for share in shares:
        if not 0 <= share.index < len(devices):
            raise BadRequest(f"device {share.index} was granted, this node has {len(devices)}")
    return tuple(devices[share.index] for share in shares)


def nodes(granted: Sequence[DeviceInfo]) -> tuple[tuple[int, int], ...]:
    """Return the character devices to admit, each once even if GPUs share control nodes."""
    return tuple(dict.fromkeys(node for device in granted for node in device.nodes))


def not_launched(node: str, why: str) -> str:
    """Return the reason of an attempt that its node could not launch, for people."""
    return f"it could not be launched on node {node}: {why}"


def outcome(exited: Exited, decision: int, node: str) -> Outcome | None:
    """Return the outcome of an end for the log; None for an attempt that never began."""
    if exited.cause == "never_started":
        return None
    unlaunched = exited.of_the_node and exited.cause == "start_failed"
    return Outcome(
        job=exited.job,
        attempt=exited.attempt,
        task=exited.task,
        placing=exited.placing,
        decision=decision,
        state="unlaunched" if unlaunched else _state(exited),
        t_ns=exited.t_ns,
        exit_code=exited.exit_code,
        signal=exited.signal,
        reason=not_launched(node, exited.reason) if unlaunched else exited.reason,
        usage=exited.usage,
        started_ns=exited.started_ns,
    )


State = Literal["succeeded", "failed", "timeout", "cancelled", "lost"]

_STATE_OF: Mapping[str, State] = {
    "signalled": "failed",
    "timeout": "timeout",
    "stopped": "cancelled",
    "start_failed": "failed",
    "lost": "lost",
}


def _state(exited: Exited) -> State:
    if exited.cause == "exited":
        return "succeeded" if exited.exit_code == 0 else "failed"
    return _STATE_OF[exited.cause]


def aside(start: StartJob, granted: Sequence[DeviceInfo], place: JobPlace) -> dict[str, str]:
    """Return the tracers that the job's own variables exclude, and why."""
    return _offer(start.spec, granted, place, "", start.spec.env).aside


def _offer(
    spec: JobSpec,
    granted: Sequence[DeviceInfo],
    place: JobPlace,
    segments: str,
    variables: Mapping[str, str],
) -> Offer:
    tracers = {**place.tracers, "opencl": place.layer}
    return offer(
        tracers,
        segments,
        spec.trace,
        vendors={device.vendor for device in granted},
        render_nodes=_render_nodes(granted),
        job=variables,
    )


def _render_nodes(granted: Sequence[DeviceInfo]) -> dict[int, str]:
    """Return the ids of AMD's devices by the minor numbers of their render nodes."""
    return {
        minor: device.id
        for device in granted
        for major, minor in device.nodes
        if device.vendor == "amd" and major == DRM_MAJOR
    }
