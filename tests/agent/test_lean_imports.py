# SPDX-License-Identifier: Apache-2.0
"""A daemon loads no package that only its packages want, and may load it later."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = """
import sys
import {daemon}
print([name for name in ("typing_extensions", "zmq.asyncio") if name in sys.modules])
import typing_extensions
print(typing_extensions.NotRequired.__name__)
"""


@pytest.mark.parametrize("daemon", ["stoker.agent.daemon", "stoker.agent.supervise.supervisor"])
def test_a_daemon_loads_less_and_loses_nothing(daemon: str) -> None:
    program = LOADED.format(daemon=daemon)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert done.stdout.splitlines() == ["[]", "NotRequired"]
