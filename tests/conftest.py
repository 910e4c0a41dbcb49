# SPDX-License-Identifier: Apache-2.0
"""Two halves of the suite run side by side (`make test`): what uses the machine, and what does not.

Relied on by pytest-xdist's `loadgroup`, which keeps a group on one worker and in order. Nodes, BPF
programs and traced jobs are never beside one another, so that a test of one meets no other.
"""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
MACHINE = ("agent", "product", "probes", "tui", "native/bpf", "native/runner", "test_examples.py")
"""Folders and files below tests/ whose tests start nodes or load programs into the kernel."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and _uses_machine(item.path.relative_to(HERE)):
            item.add_marker(pytest.mark.xdist_group("machine"))


def _uses_machine(path: Path) -> bool:
    return any(path.is_relative_to(part) for part in MACHINE)
