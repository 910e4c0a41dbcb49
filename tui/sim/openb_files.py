# SPDX-License-Identifier: Apache-2.0
"""Files of the Alibaba 2023 GPU trace, read as the workloads of a simulation.

A file that cannot be used is refused with its name and the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stoker.native.errors import BadRequest, NotFound
from stoker.scheduler.sim import openb
from stoker.scheduler.sim.openb_run import Workload

FILE_BYTES_MAX = 256 << 20
PREFIX = "openb_pod_list_"
"""The beginning of a file's name that is left out of the workload's name."""


def read_workloads(nodes: Path, pods: Sequence[Path]) -> list[Workload]:
    """The machines and every list of tasks; BadRequest for a bad row or a name twice."""
    machines = openb.read_machines(_lines(nodes), str(nodes))
    names = [path.stem.removeprefix(PREFIX) for path in pods]
    if len(set(names)) != len(names):
        raise BadRequest(f"two task files have the same name: {', '.join(names)}")
    return [
        Workload(name, machines, openb.read_tasks(_lines(path), str(path)))
        for name, path in zip(names, pods, strict=True)
    ]


def check_departures(workloads: Sequence[Workload], pods: Sequence[Path]) -> None:
    """BadRequest for a file that does not say when its tasks leave."""
    for workload, path in zip(workloads, pods, strict=True):
        openb.check_times(workload.tasks, str(path))


def _lines(path: Path) -> list[str]:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise BadRequest(f"{path} is larger than {FILE_BYTES_MAX >> 20} MiB")
        return path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise NotFound(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path} is no text: {error.reason} at byte {error.start}") from error
