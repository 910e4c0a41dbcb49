# SPDX-License-Identifier: Apache-2.0
"""Gangs of eight ranks on two nodes: how far apart the ranks begin, beside a floor in the same run.

    PYTHONPATH=tests python -m tests.soak.gang_starts [--gangs N]        (make soak)

Two hosts are network namespaces with eight simulated cards each (SIM); one is a server and the
other a node that joined it by TLS. A rank is a static program that prints the time of its first
statement. The floor is two parents which are released by one write, and spawn four of the same
program each. Writes docs/measurements/gang-starts.md, and exits with 1 if a gang did not run. Needs
root.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from fakes.server_life import status
from fakes.three_hosts import ServerHost, three_hosts
from product_node import STOKER, wait_until

RECORD = Path(__file__).parents[2] / "docs" / "measurements" / "gang-starts.md"
PROFILE = "8xH200"
NODES, ON_EACH = 2, 4
TARGET_MS = 50
FIRST = r"""
#include <stdio.h>
#include <time.h>

int main(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
    return 0;
}
"""
PARENT = """
import os, sys
os.write(1, b"ready\\n")
os.read(0, 1)
made = [os.posix_spawn(sys.argv[1], sys.argv[1:], {}) for _ in range(int(sys.argv[2]))]
for each in made:
    os.waitpid(each, 0)
"""
ABOUT = """# How far apart the ranks of a gang begin

`make soak` (`tests/soak/gang_starts.py`) runs gangs of eight ranks with a simulated card each
(SIM), four on each of two nodes, which are network namespaces of this machine. A rank prints
CLOCK_MONOTONIC in its first statement; a gang's spread is the last minus the first. The floor is
two Python processes which one write releases, and which spawn four of the same program each.
The target is 50 ms between any two ranks. One gang before them is not counted: a node whose agent
has just started lets jobs go on at its watchdog's next look, up to 50 ms later.

"""


class Spread(NamedTuple):
    """The spreads of many starts, in ms."""

    what: str
    ms: list[float]

    @property
    def row(self) -> str:
        ranked = sorted(self.ms)
        within = sum(each <= TARGET_MS for each in ranked)
        cells = (ranked[len(ranked) // 2], ranked[len(ranked) * 95 // 100], ranked[-1])
        figures = " | ".join(f"{each:.1f}" for each in cells)
        return f"| {self.what} | {len(ranked)} | {figures} | {within} |"


def spread_ms(stamps: list[int]) -> float:
    """Return the time between the first and the last of these stamps."""
    return (max(stamps) - min(stamps)) / 1e6


def compiled(folder: Path) -> Path:
    program = folder / "first"
    words = ("cc", "-O2", "-static", "-x", "c", "-o", str(program), "-")
    subprocess.run(words, input=FIRST.encode(), check=True)
    program.chmod(0o755)
    return program


def gang(host: ServerHost, program: Path) -> list[int]:
    """Run one gang and return what its ranks printed."""
    done = host.stoker("run", "--tasks-per-node", str(ON_EACH), "--nodes", str(NODES),
                       "--gpus", "1", "--trace", "off", "--", str(program))  # fmt: skip
    return [int(line.split()[-1]) for line in done.stdout.splitlines()]


def floor(program: Path) -> list[int]:
    """Release two parents by one write and return what their children printed."""
    gate, release = os.pipe()
    words = [sys.executable, "-S", "-E", "-c", PARENT, str(program), str(ON_EACH)]
    parents = [subprocess.Popen(words, stdin=gate, stdout=subprocess.PIPE) for _ in range(NODES)]
    for each in parents:
        assert each.stdout is not None
        each.stdout.readline()
    os.write(release, b"go"[:NODES])
    told = b"".join(each.communicate()[0] for each in parents)
    os.close(gate)
    os.close(release)
    return [int(line) for line in told.split()]


def begin(hosts: list[ServerHost]) -> None:
    """Start the server and the node, each with simulated cards."""
    first, node = hosts[:2]
    first.stoker("cluster", "init", "--address", first.address, "--name", first.name)
    up(first)
    token = first.stoker("cluster", "token").stdout
    node.stoker("cluster", "join", "--name", node.name, stdin=token)
    up(node)

    def ready() -> bool:
        found = status(first)["nodes"]
        return all(found.get(each.name) == "ready" for each in (first, node))

    wait_until(ready, "both nodes are ready")


def up(host: ServerHost) -> None:
    words = ("nsenter", f"--net=/run/netns/{host.namespace}", STOKER, "sim", "driver",
             "--profile", PROFILE, "--", STOKER, "up")  # fmt: skip
    state = {**os.environ, "STOKER_STATE": str(host.root)}
    subprocess.run(words, env=state, cwd="/", check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--gangs", type=int, default=100)
    count = options.parse_args().gangs
    ranks, bare = Spread("gangs (SIM)", []), Spread("floor", [])
    failed = 0
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, three_hosts() as hosts:
        Path(folder).chmod(0o755)
        program = compiled(Path(folder))
        begin(hosts)
        gang(hosts[0], program)  # uncounted: the watchdog lets a new node's jobs go on meanwhile
        for _ in range(count):
            stamps = gang(hosts[0], program)
            failed += len(stamps) != NODES * ON_EACH
            ranks.ms.append(spread_ms(stamps))
            bare.ms.append(spread_ms(floor(program)))
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    table = "\n".join(
        (
            "| ms | starts | median | 95th percentile | most | within 50 ms |",
            "|---|---|---|---|---|---|",
            ranks.row,
            bare.row,
        )
    )
    print(f"{table}\nload {load}")
    RECORD.write_text(
        f"{ABOUT}{os.cpu_count()} cores, load averages {load} at the end.\n\n{table}\n"
    )
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
