# SPDX-License-Identifier: Apache-2.0
"""The scheduler's process with one change: a submit of BLOCK keeps its loop busy.

The loop is busy while the file `blocked`, which it makes, is in the state folder.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from stoker.mesh.server import scheduler_daemon
from stoker.mesh.server.service import Service

BLOCK = "block"


def main() -> int:
    mark = Path(sys.argv[sys.argv.index("--state") + 1]) / "blocked"
    take = Service.take

    def busy(self: Service, address: Any, reply: Any, data: bytes, now_ns: int) -> Any:
        if BLOCK.encode() in data:
            mark.touch()
            while mark.exists():
                time.sleep(0.01)
        return take(self, address, reply, data, now_ns)

    Service.take = busy  # type: ignore[method-assign]
    return scheduler_daemon.main()


if __name__ == "__main__":
    sys.exit(main())
