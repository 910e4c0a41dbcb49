# SPDX-License-Identifier: Apache-2.0
"""The table of one node's processes: arguments, dependencies and privileges of each.

Arguments carry paths and never secrets.
"""

from __future__ import annotations

import os
import sys
from typing import Literal

import msgspec

from stoker.agent.power.setters import record
from stoker.agent.state import (
    event_log_environment,
    gossip_files,
    otlp_environment,
    span_environment,
)
from stoker.agent.state.gossip_files import SERF
from stoker.agent.state.host_facts import jobs_memory_bytes, processes_max
from stoker.agent.state.state_folder import REGISTRAR, ClusterFile, StateFolder
from stoker.agent.supervise.processes import ProcessSpec
from stoker.mesh.broker.broker_program import BROKER, broker_program
from stoker.native import paths
from stoker.native.errors import NotSupported

ORDER = (BROKER, "spawner", "watchdog", "scheduler", "agent")
"""The start order of a node that is alone; processes are stopped in reverse."""
COPIER = "copier"
"""The process of a server that keeps its tables like those of the first one."""
FENCE_KILL_S = 60
"""The seconds after which the watchdog of a node that joined kills jobs that it froze."""

SERF_GAP_S = 2.0
"""The Serf agent starts in a tenth of a second, and again for each step of a change of its keys."""

_PASSED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "LD_LIBRARY_PATH")
_PASSED_PREFIXES = (
    *("LC_", "STOKER_", "OCL_", "OPENCL_", "POCL_", "CUDA_", "NVIDIA_", "ROCM_", "PYTHON"),
    *("ZE_", "ZES_"),
)
_PASSED_SIM = ("LD_PRELOAD",)
"""Variables for simulated cards and dates (SIM) only: they put a simulated Intel loader before the
real one, or a date of the host's own before the machine's."""
_SIM = {"STOKER_SIM_NODE", "STOKER_SIM_DATE"}

MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
"""Variables for malloc of the GNU C library. Left alone, it takes large tables from a thread's heap
once a larger one was freed, so that pages of them that are never used are memory all the same."""


class Program(msgspec.Struct, frozen=True):
    """One process. `ready`: the sign that it serves: a datagram of sd_notify, the broker's
    greeting, a connection to its socket, or its start."""

    spec: ProcessSpec
    argv: tuple[str, ...]
    ready: Literal["notify", "broker", "socket", "start"]
    capless: bool = False
    nofile: int = 65536


def environment(state: StateFolder) -> dict[str, str]:
    """Return the environment of children: listed names only, so that no secret of the caller's
    shell leaks, and cache folders for compilers of GPU runtimes, which would else use /tmp."""
    names = (*_PASSED, *_PASSED_SIM) if _SIM & os.environ.keys() else _PASSED
    passed = {k: v for k, v in os.environ.items() if k in names or k.startswith(_PASSED_PREFIXES)}
    cache = state.agent / "cache"
    told = set(otlp_environment.PASSED)
    for signal in (span_environment, event_log_environment):
        told |= {*signal.TAKEN, *signal.NOT_TAKEN}
    passed |= {k: v for k, v in os.environ.items() if k in told}
    caches = {"POCL_CACHE_DIR": str(cache / "pocl"), "CUDA_CACHE_PATH": str(cache / "cuda")}
    return {**caches, **MEMORY, **passed, "STOKER_STATE": str(state.root)}


def programs(
    state: StateFolder, cluster: ClusterFile | None = None, *, allow_root: bool
) -> list[Program]:
    """Return all processes in start order. `allow_root`: some user's jobs run as root. Without
    `cluster`, those of a node that is alone."""
    try:
        if cluster is not None and cluster.joined:
            return [
                _spawner(state, allow_root=allow_root),
                _watchdog(state, "--fence-kill-s", str(FENCE_KILL_S)),
                *_serf(state, cluster),
                _agent(state, "spawner"),
            ]
        if cluster is not None and cluster.several:
            return _of_server(state, cluster, allow_root=allow_root)
        takes_hosts = cluster is not None and cluster.takes_hosts
        return [
            _broker(state),
            _spawner(state, allow_root=allow_root),
            _watchdog(state),
            _scheduler(state),
            *([_registrar(state)] if takes_hosts else []),
            *(_serf(state, cluster) if cluster is not None else ()),
            _agent(state, "spawner", "scheduler"),
        ]
    except paths.NotBuilt as error:
        raise NotSupported(str(error)) from None


def _of_server(state: StateFolder, cluster: ClusterFile, *, allow_root: bool) -> list[Program]:
    """Return the processes of a server beside others. Until the cluster is founded, these are the
    ones by which servers join. From then on a server serves what it can, and waits for others in
    its own processes: those that need a majority of servers count as ready once they run."""
    if cluster.waits:
        return [_broker(state), _registrar(state)] if cluster.is_first else [_copier(state)]
    return [
        _broker(state),
        _spawner(state, allow_root=allow_root),
        _watchdog(state, "--fence-kill-s", str(FENCE_KILL_S)),
        msgspec.structs.replace(_scheduler(state), ready="start"),
        _registrar(state) if cluster.is_first else _copier(state),
        *_serf(state, cluster),
        msgspec.structs.replace(_agent(state, "spawner", "scheduler"), ready="start"),
    ]


def _scheduler(state: StateFolder) -> Program:
    module = "stoker.mesh.server.scheduler_daemon"
    return _python(state, "scheduler", module, (BROKER,), capless=True)


def _agent(state: StateFolder, *after: str) -> Program:
    return _python(state, "agent", "stoker.agent.daemon", after)


def _copier(state: StateFolder) -> Program:
    return _python(state, COPIER, "stoker.agent.join.table_copier", (), capless=True)


def _registrar(state: StateFolder) -> Program:
    return _python(state, REGISTRAR, "stoker.agent.join.registrar", (BROKER,), capless=True)


def _serf(state: StateFolder, cluster: ClusterFile) -> list[Program]:
    """Return the Serf agent; none on a host that takes no part in the gossip mesh."""
    found = gossip_files.program()
    if found is None or gossip_files.absence(state, cluster):
        return []
    argv = (found, "agent", "-config-file", str(gossip_files.config_file(state)))
    spec = ProcessSpec(SERF, gap_s=SERF_GAP_S, optional=True)
    return [Program(spec, argv, ready="start", capless=True)]


def _broker(state: StateFolder) -> Program:
    return Program(
        ProcessSpec(BROKER),
        (str(broker_program()), "-c", str(state.nats / "nats-server.conf")),
        ready="broker",
        capless=True,
    )


def _spawner(state: StateFolder, *, allow_root: bool) -> Program:
    """The spawner serves as soon as its socket takes a connection."""
    return Program(
        ProcessSpec("spawner"),
        (
            str(paths.program("stoker-spawner")),
            *("--socket", str(state.run / "spawner.sock")),
            *job_arguments(state),
            *(("--allow-root",) if allow_root else ()),
            *_caps(),
        ),
        ready="socket",
        nofile=1 << 20,
    )


def job_arguments(state: StateFolder) -> tuple[str, ...]:
    """Return the spawner's arguments for its journal and cgroups, which its successor and
    `--kill-all` need as well."""
    return ("--journal", str(state.agent), *_cgroup(state))


def _cgroup(state: StateFolder) -> tuple[str, ...]:
    """Return the cgroup argument; empty without root, where no cgroup can be made."""
    return ("--cgroup", f"stoker-{state.instance}") if os.geteuid() == 0 else ()


def _caps() -> tuple[str, ...]:
    """Return limits of all jobs together, which leave resources to the machine; root only."""
    if os.geteuid() != 0:
        return ()
    memory = jobs_memory_bytes()
    caps = ("--pids-max-all", str(processes_max()))
    return (*caps, "--memory-max-all", str(memory)) if memory > 0 else caps


def _watchdog(state: StateFolder, *kill: str) -> Program:
    """The watchdog of a cluster's first node runs without `kill`: its only scheduler is here, so
    nobody gives this node's jobs to another one while it is unreachable, and frozen jobs wait for
    it. On a node that joined they are killed in the end, because others may run them by then."""
    program = str(paths.program("stoker-watchdog"))
    argv = (program, "--lease", str(state.run / "lease"), *_cgroup(state), *kill, *_restore(state))
    return Program(ProcessSpec("watchdog"), argv, ready="start")


def _restore(state: StateFolder) -> tuple[str, ...]:
    """Return the arguments to restore the limits of cards when the agent cannot."""
    return (
        *("--restore", str(paths.program("stoker-restore"))),
        *("--power-record", str(record.path(state.agent))),
    )


def _python(
    state: StateFolder, name: str, module: str, after: tuple[str, ...], *, capless: bool = False
) -> Program:
    argv = (sys.executable, "-P", "-m", module, "--state", str(state.root))
    return Program(ProcessSpec(name, after), argv, ready="notify", capless=capless)
