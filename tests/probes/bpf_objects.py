# SPDX-License-Identifier: Apache-2.0
"""BPF objects of the kernel as bpftool lists them, whoever made them."""

from __future__ import annotations

import json
import subprocess
from typing import Any

TRIES = 50


def listed(kind: str) -> list[dict[str, Any]]:
    """All objects of a kind (prog, map, link, btf).

    bpftool fails if an object is freed between its two looks, as tests beside this one do, so it
    is called again.
    """
    for _ in range(TRIES):
        done = subprocess.run(["bpftool", "-j", kind, "list"], capture_output=True, check=False)
        if done.returncode == 0:
            found: list[dict[str, Any]] = json.loads(done.stdout)
            return found
    raise AssertionError(f"bpftool {kind} list: {done.stdout.decode()} {done.stderr.decode()}")
