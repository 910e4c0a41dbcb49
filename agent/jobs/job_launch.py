# SPDX-License-Identifier: Apache-2.0
"""How a job is launched: what was asked for and what was granted, as one order to the spawner.

Pure. Owns the environment of a job: a clean base, then the user's, then what the grant makes
visible, then what stoker says; a user's STOKER_* names are not passed on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from stoker.agent.devices import visibility
from stoker.agent.jobs.attempt_folders import folder_name
from stoker.agent.jobs.spawner_messages import Exited, Launch
from stoker.agent.state.job_bounds import NodeBounds
from stoker.native.errors import BadRequest
from stoker.probes.kernels.tracer_environment import Offer, offer
from stoker.scheduler.nouns import (
    DeviceInfo,
    DeviceShare,
    JobSpec,
    Outcome,
    Owner,
    StartJob,
)

PATH_USER = "/usr/local/bin:/usr/bin:/bin"
PATH_ROOT = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LANG = "C.UTF-8"
LOADER_PATH = "LD_LIBRARY_PATH"


@dataclass(frozen=True, slots=True)
class Home:
    """What the user database says of an owner. `cache`: where the compilers of GPU runtimes may
    keep their output if the home folder cannot take it (PoCL finds no device without); else ""."""

    folder: str = "/"
    shell: str = "/bin/sh"
    cache: str = ""


@dataclass(frozen=True, slots=True)
class JobPlace:
    """Where jobs live on this node. `layer`: the OpenCL layer, in a folder jobs can read; so are
    the other tracers, by the names of `probes.environment.LIBRARIES`. `simulated`: what leads a
    job to the simulated drivers (SIM), if it was granted a simulated card."""

    node: str
    jobs: str
    segments: str
    layer: str = ""
    tracers: Mapping[str, str] = field(default_factory=dict)
    simulated: Mapping[str, str] = field(default_factory=dict)
    bounds: NodeBounds = field(default_factory=NodeBounds)


def launch(
    start: StartJob, granted: Sequence[DeviceInfo], home: Home, place: JobPlace, traced: bool
) -> Launch:
    """The order to start this attempt; its folder is made when it is needed."""
    spec, owner, bounds = start.spec, start.owner, place.bounds
    name = folder_name(start.job, start.attempt)
    segments = f"{place.segments}/{name}" if traced else ""
    return Launch(
        job=start.job,
        attempt=start.attempt,
        argv=spec.argv,
        env=environment(start, granted, home, place, segments),
        cwd=spec.cwd,
        uid=owner.uid,
        gid=owner.gid,
        folder=f"{place.jobs}/{name}",
        groups=owner.groups,
        umask=spec.umask,
        stdin=spec.stdin,
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
    )


def environment(
    start: StartJob, granted: Sequence[DeviceInfo], home: Home, place: JobPlace, segments: str
) -> dict[str, str]:
    """Everything the job finds in its environment; TMPDIR is not set, so programs use /tmp."""
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
    variables["STOKER_JOB_ID"] = str(start.job)
    variables["STOKER_ATTEMPT"] = str(start.attempt)
    variables["STOKER_NODE"] = place.node
    if spec.array_size:
        variables["STOKER_ARRAY_ID"] = str(start.job - spec.array_place)
        variables["STOKER_ARRAY_INDEX"] = str(spec.array_index)
        variables["STOKER_ARRAY_COUNT"] = str(spec.array_size)
    return variables


def base(owner: Owner, home: Home) -> dict[str, str]:
    """What a login would set, and nothing of the agent's own environment."""
    variables = {
        "PATH": PATH_USER if owner.uid else PATH_ROOT,
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
    """Before the job's own libraries, as the real driver of a machine without one is none."""
    own = variables.get(LOADER_PATH, "")
    found = dict(place.simulated)
    if own and LOADER_PATH in found:
        found[LOADER_PATH] += f":{own}"
    return found


def wants_trace(spec: JobSpec, place: JobPlace) -> bool:
    """Whether the tracer is offered to this job: unless it said no, or there is none to offer."""
    return spec.trace != "off" and bool(place.layer or place.tracers)


def grant(devices: Sequence[DeviceInfo], shares: Sequence[DeviceShare]) -> tuple[DeviceInfo, ...]:
    """The devices behind a decision's shares; BadRequest for one this node does not have."""
    for share in shares:
        if not 0 <= share.index < len(devices):
            raise BadRequest(f"device {share.index} was granted, this node has {len(devices)}")
    return tuple(devices[share.index] for share in shares)


def nodes(granted: Sequence[DeviceInfo]) -> tuple[tuple[int, int], ...]:
    """Character devices to admit: each once, also where GPUs share control nodes."""
    return tuple(dict.fromkeys(node for device in granted for node in device.nodes))


def outcome(exited: Exited, decision: int) -> Outcome | None:
    """What the log is told of an end; None for an attempt that never began."""
    if exited.cause == "never_started":
        return None
    return Outcome(
        job=exited.job,
        attempt=exited.attempt,
        decision=decision,
        state=_state(exited),
        t_ns=exited.t_ns,
        exit_code=exited.exit_code,
        signal=exited.signal,
        reason=exited.reason,
        usage=exited.usage,
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
    """Tracers that this job is not offered because of what it has set itself, and why."""
    return _offer(start.spec, granted, place, "", start.spec.env).aside


def _offer(
    spec: JobSpec,
    granted: Sequence[DeviceInfo],
    place: JobPlace,
    segments: str,
    variables: Mapping[str, str],
) -> Offer:
    tracers = {**place.tracers, "opencl": place.layer}
    vendors = {device.vendor for device in granted}
    return offer(tracers, segments, spec.trace, vendors=vendors, job=variables)
