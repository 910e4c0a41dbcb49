# SPDX-License-Identifier: Apache-2.0
"""Floods with a node's stolen key, and what a user notices of them, on a cluster of one server.

    python -m tests.soak.node_floods [--json] [--seconds S] [KIND...]        (make soak)

The thief is in a network namespace of its own and has another key for each flood, so that none is
kept out because of the last one. A user runs jobs one after the other, quiet and then flooded, and
the median counts; `spin` is one program that only computes, which is the floor of a thief on the
same machine. It fails where a run takes more than twice its quiet time, or a job was frozen.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from fakes.other_host import OtherHost, other_host

from stoker.agent.state import state_folder
from tests.product_node import LiveNode, live_node
from tests.soak.floods import SLOWER_MAX, broker_bytes, frozen, run_s
from tests.soak.node_flooder import KINDS

HERE, THERE = "10.213.91.1", "10.213.91.2"
RUNS = 11
"""Quiet runs before each flood, and after it."""
SPIN = "spin"
PAUSE_S = 2.0
"""The pause before and after a flood, in which a broker reads its keys anew."""


class Round(NamedTuple):
    """One flood: runs in times of their quiet median, and what became of the thief."""

    kind: str
    quiet_s: float
    runs: int
    median: float
    p90: float
    longest: float
    broker_mib: int
    frozen: int
    log_kib: int
    became: dict[str, int]
    told: str


class Thief:
    """A host whose keys are stolen, one for each flood."""

    def __init__(self, node: LiveNode, host: OtherHost, folder: Path) -> None:
        self._node, self._host, self._folder = node, host, folder

    @contextmanager
    def flooding(self, kind: str, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
        """The flood in a process of its own, ended with the block."""
        if kind == SPIN:
            argv = ["timeout", str(seconds), sys.executable, "-c", "while True: pass"]
        else:
            argv = self._argv(kind, seconds)
        process = subprocess.Popen(argv, stdout=subprocess.PIPE)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def _argv(self, kind: str, seconds: float) -> list[str]:
        place = state_folder.locate(self._folder / kind)
        token = self._node.stoker("cluster", "token").stdout
        words = ("cluster", "join", "--state", str(place.root), "--name", f"thief-{kind}")
        done = self._host.stoker(*words, stdin=token)
        assert done.returncode == 0, done.stderr
        time.sleep(PAUSE_S)
        where = [state_folder.load(place).url, str(place.key("agent"))]
        argv = ["nsenter", f"--net=/run/netns/{self._host.name}", sys.executable, "-m"]
        argv += ["tests.soak.node_flooder", kind, str(seconds), *where]
        return [*argv, str(place.broker_certificate), f"thief-{kind}"]


def flooded(node: LiveNode, thief: Thief, kind: str, seconds: float) -> Round:
    """Carry one flood out."""
    calm = [run_s(node) for _ in range(RUNS)]
    stops, logged = frozen(node), _log_bytes(node)
    flooded_s, said = [], b""
    with thief.flooding(kind, seconds) as process:
        while process.poll() is None:
            flooded_s.append(run_s(node))
        assert process.stdout is not None
        said = process.stdout.read()
    time.sleep(PAUSE_S)
    quiet_s = statistics.median([*calm, *(run_s(node) for _ in range(RUNS))])
    times = [each / quiet_s for each in flooded_s]
    return Round(
        kind=kind,
        quiet_s=round(quiet_s, 4),
        runs=len(times),
        median=round(statistics.median(times), 2),
        p90=round(statistics.quantiles(times, n=10)[-1], 2) if len(times) > 1 else times[0],
        longest=round(max(times), 1),
        broker_mib=broker_bytes(node) >> 20,
        frozen=frozen(node) - stops,
        log_kib=max(_log_bytes(node) - logged, 0) >> 10,
        became=json.loads(said) if said else {},
        told=_told(node, f"thief-{kind}"),
    )


def _log_bytes(node: LiveNode) -> int:
    return sum(path.stat().st_size for path in node.state.log.glob("*"))


def _told(node: LiveNode, name: str) -> str:
    """The first event that tells how the flood was ended."""
    lines = node.stoker("events", "--since", "5m").stdout.decode().splitlines()
    ends = [line for line in lines if name in line and "kept out" in line]
    return ends[0].split("node.flooded")[1].strip() if ends else ""


def fails(row: Round) -> bool:
    """True for a flood of which the user notices too much."""
    return row.kind != SPIN and (row.median > SLOWER_MAX or row.frozen > 0)


def main() -> int:
    """Return 1 if one of the floods fails."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each flood")
    parser.add_argument("kinds", nargs="*", default=[SPIN, *KINDS], metavar="KIND")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])

    def prepare(live: LiveNode) -> None:
        live.stoker("cluster", "init", "--address", HERE, "--name", "first")

    rows: list[Round] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        other_host(HERE, THERE) as host,
        live_node(prepare=prepare) as node,
    ):
        Path(folder).chmod(0o711)
        thief = Thief(node, host, Path(folder))
        for kind in options.kinds:
            rows.append(flooded(node, thief, kind, options.seconds))
            if not options.json:
                print(_line(rows[-1]), flush=True)
    if options.json:
        found: dict[str, Any] = {"rounds": [row._asdict() for row in rows]}
        print(json.dumps(found, indent=1))
    return int(any(map(fails, rows)))


def _line(row: Round) -> str:
    became = ", ".join(f"{count:,} {name}" for name, count in sorted(row.became.items()))
    return (
        f"| {row.kind} | {row.quiet_s * 1000:.0f} | {row.median:.2f} | {row.p90:.2f}"
        f" | {row.longest:.1f} | {row.runs}"
        f" | {row.broker_mib} | {row.frozen} | {row.log_kib} | {became} | {row.told} |"
    )


if __name__ == "__main__":
    sys.exit(main())
