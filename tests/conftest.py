# SPDX-License-Identifier: Apache-2.0
"""Two parts of the suite (`make test`): what uses the machine runs alone, the rest side by side.

BPF programs and traced jobs measure themselves by the clock of a machine that is theirs: beside
other tests a governed tracer, say, has less to go by. They have the mark `machine`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MACHINE = (
    "probes",
    "native/bpf",
    "agent/test_governing_sites.py",
    "agent/test_job_calls_node.py",
    "agent/test_lease.py",
    "agent/test_spawner.py",
    "agent/test_spawner_deaths.py",
    "agent/test_tracing.py",
    "product/test_accounting.py",
    "product/test_cuda.py",
    "product/test_launches.py",
    "product/test_power.py",
    "product/test_switching.py",
    "product/test_tracing.py",
    "product/test_windows.py",
)
"""Folders and files below tests/ whose tests trace jobs, load programs into the kernel or kill what
runs jobs at a chosen moment."""


PARTS = {"machine": True, "not machine": False}
"""What `-m` says of a part -> whether it uses the machine."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of the other part are not even imported."""
    wanted = PARTS.get(config.option.markexpr)
    if wanted is None or collection_path.suffix != ".py":
        return None
    return True if _uses_machine(collection_path) != wanted else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _uses_machine(item.path):
            item.add_marker(pytest.mark.machine)


@cache
def _uses_machine(path: Path) -> bool:
    if not path.is_relative_to(HERE):
        return False
    return any(path.relative_to(HERE).is_relative_to(part) for part in MACHINE)
