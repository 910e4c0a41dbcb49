# SPDX-License-Identifier: Apache-2.0
"""Daemons log without having loaded rich, which stays there for the command line."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = """
import sys
import {module}
assert "structlog" in sys.modules
print("rich" in sys.modules)
import rich.text
print(rich.text.Text("still there"))
"""


@pytest.mark.parametrize("module", ["stoker.agent.daemon", "stoker.mesh.server.scheduler_daemon"])
def test_a_daemon_has_not_loaded_rich(module: str) -> None:
    command = [sys.executable, "-P", "-c", LOADED.format(module=module)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["False", "still there"], done.stderr
