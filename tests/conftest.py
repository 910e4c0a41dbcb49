# SPDX-License-Identifier: Apache-2.0
"""Two parts of the suite (`make test`): what uses the machine runs alone, the rest side by side.

BPF programs and traced jobs measure themselves by the clock of a machine that is theirs: beside
other tests a governed tracer, say, has less to go by. They have the mark `machine`.
"""

from __future__ import annotations

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and _uses_machine(item.path.relative_to(HERE)):
            item.add_marker(pytest.mark.machine)


def _uses_machine(path: Path) -> bool:
    return any(path.is_relative_to(part) for part in MACHINE)
