# SPDX-License-Identifier: Apache-2.0
"""The table of one node's processes: arguments, dependencies and privileges of each.

Arguments carry paths and never secrets.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Literal

from stoker.agent.power.setters import record
from stoker.agent.state.host_facts import jobs_memory_bytes, processes_max
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise.processes import ProcessSpec
from stoker.mesh.broker.broker_program import BROKER, broker_program
from stoker.native import paths
from stoker.native.errors import NotSupported

ORDER = (BROKER, "spawner", "watchdog", "scheduler", "agent")
"""The start order; processes are stopped in reverse."""

_PASSED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "LD_LIBRARY_PATH")
_PASSED_PREFIXES = (
    *("LC_", "STOKER_", "OCL_", "OPENCL_", "POCL_", "CUDA_", "NVIDIA_", "ROCM_", "PYTHON"),
    *("ZE_", "ZES_"),
)
_PASSED_SIM = ("LD_PRELOAD",)
"""Variables for simulated cards (SIM) only: they put a simulated Intel loader before the real
one."""


@dataclass(frozen=True, slots=True)
class Program:
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
    names = (*_PASSED, *_PASSED_SIM) if "STOKER_SIM_NODE" in os.environ else _PASSED
    passed = {k: v for k, v in os.environ.items() if k in names or k.startswith(_PASSED_PREFIXES)}
    cache = state.agent / "cache"
    caches = {"POCL_CACHE_DIR": str(cache / "pocl"), "CUDA_CACHE_PATH": str(cache / "cuda")}
    return {**caches, **passed, "STOKER_STATE": str(state.root)}


def programs(state: StateFolder, *, allow_root: bool) -> list[Program]:
    """Return all processes in start order. `allow_root`: some user's jobs run as root."""
    try:
        return [
            _broker(state),
            _spawner(state, allow_root=allow_root),
            _watchdog(state),
            _python(
                state, "scheduler", "stoker.mesh.server.scheduler_daemon", (BROKER,), capless=True
            ),
            _python(state, "agent", "stoker.agent.daemon", ("spawner", "scheduler")),
        ]
    except paths.NotBuilt as error:
        raise NotSupported(str(error)) from None


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


def _watchdog(state: StateFolder) -> Program:
    """The watchdog runs without --fence-kill-s: no other node can have this node's jobs, so frozen
    jobs wait for the scheduler and are not killed."""
    program = str(paths.program("stoker-watchdog"))
    argv = (program, "--lease", str(state.run / "lease"), *_cgroup(state), *_restore(state))
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
