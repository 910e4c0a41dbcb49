# SPDX-License-Identifier: Apache-2.0
"""A worker that knows the others by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT alone, as scripts
for torch.distributed do (env://). Rank 0 keeps a store at that address; by it all ranks add up
their values, and each says what it got.

With a number as argument it is a launcher for one node, as torchrun is: it starts so many workers
and gives each the rank that follows from NODE_RANK.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time


def serve(listener: socket.socket, ranks: int) -> None:
    """Answer each rank with the sum of all, once all have said theirs."""
    waiting, total = [], 0
    while len(waiting) < ranks:
        made, _ = listener.accept()
        total += int(json.loads(made.makefile().readline())["add"])
        waiting.append(made)
    for made in waiting:
        made.sendall(json.dumps({"sum": total}).encode() + b"\n")


def joined(place: tuple[str, int]) -> socket.socket:
    """Connect to the store, which may begin later than this rank."""
    for _ in range(600):
        try:
            return socket.create_connection(place, timeout=60)
        except ConnectionRefusedError:
            time.sleep(0.1)
    sys.exit(f"no store at {place}")


def work() -> None:
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = None
    if rank == 0:
        store = threading.Thread(target=serve, args=(socket.create_server(place), ranks))
        store.start()
    with joined(place) as made:
        made.sendall(json.dumps({"add": 10**rank}).encode() + b"\n")
        total = json.loads(made.makefile().readline())["sum"]
    print(rank, ranks, os.environ["LOCAL_RANK"], os.environ["STOKER_NODE"], total, flush=True)
    if store is not None:
        store.join()


def launch(workers: int) -> int:
    first = int(os.environ["NODE_RANK"]) * workers
    ranks = int(os.environ["STOKER_NODE_COUNT"]) * workers
    started = []
    for local in range(workers):
        own = {"RANK": first + local, "LOCAL_RANK": local, "WORLD_SIZE": ranks}
        variables = {**os.environ, **{name: str(value) for name, value in own.items()}}
        started.append(subprocess.Popen((sys.executable, __file__), env=variables))
    return max(each.wait() for each in started)


if __name__ == "__main__":
    sys.exit(launch(int(sys.argv[1])) if len(sys.argv) > 1 else work())
