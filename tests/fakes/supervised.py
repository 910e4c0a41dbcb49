# SPDX-License-Identifier: Apache-2.0
"""A program that supervises processes made for tests; its argument has the supervisor's settings.

Each child notifies the supervisor and waits. A file `<state>/<name>.says` has more text for a child
to send; a file `<state>/<name>.fails` makes it exit at once.
"""

from __future__ import annotations

import os
import sys

from stoker.agent.supervise import processes, supervisor
from stoker.agent.supervise.process_table import Program
from stoker.agent.supervise.processes import ProcessSpec

CHILD = """
import os, pathlib, signal, socket, sys
name, folder = sys.argv[1], pathlib.Path(os.environ["STOKER_STATE"])
print(name, "starts", flush=True)
if (folder / f"{name}.fails").exists():
    sys.exit("because it was told to")
sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
says = folder / f"{name}.says"
text = "READY=1\\n" + (says.read_text() if says.exists() else "")
says.unlink(missing_ok=True)
sock.sendto(text.encode(), os.environ["NOTIFY_SOCKET"])
while True:
    signal.pause()
"""


def program(name: str, after: tuple[str, ...] = (), *, capless: bool = False) -> Program:
    argv = (sys.executable, "-S", "-E", "-c", CHILD, name)
    gap_s = float(os.environ.get("RESTART_GAP_S", processes.RESTART_GAP_S))
    spec = ProcessSpec(name, after, stop_s=3.0, gap_s=gap_s)
    return Program(spec, argv, "notify", capless=capless, nofile=512)


TABLE = [
    program("nats-server", capless=True),
    program("spawner"),
    program("scheduler", after=("nats-server",), capless=True),
    program("agent", after=("spawner", "scheduler")),
]

if __name__ == "__main__":
    supervisor.main(TABLE)
