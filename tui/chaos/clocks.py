# SPDX-License-Identifier: Apache-2.0
"""Clocks of its own for each host: a CLOCK_BOOTTIME hours from the others', and a date to be set.

The boot clock is a time namespace, in which every process of the host runs. The date reaches
stoker's own processes by a library that they preload, so neither jobs nor the broker see it. Owns
that no clock of this machine is touched, and that all of it is gone at the end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from stoker.native import paths
from stoker.native.errors import NotSupported, Unavailable
from stoker.tui.demo.network_hosts import Host

LIBRARY = "sim/libstoker-sim-date.so"
APART_S = 6 * 3600
"""The most by which the boot clocks of two hosts differ, each beside the machine's."""
STEPS_S = (0.5, 60.0, 3600.0)
"""The dates are set by up to one of these times, ahead or back."""
RUN_S = 60.0
_NS = 1_000_000_000


@contextlib.contextmanager
def own_clocks(hosts: Sequence[Host], folder: Path, chance: random.Random) -> Iterator[list[Host]]:
    """Yield the hosts with clocks of their own, which are kept in `folder`."""
    made: list[Path] = []
    try:
        found = []
        for host in hosts:
            place = folder / f"{host.name}-clock"
            place.touch()
            _run("unshare", f"--time={place}", "--boottime", str(chance.randrange(APART_S)), "true")
            made.append(place)
            _date(host, folder).write_bytes(struct.pack("=q", 0))
            found.append(_with_clocks(host, folder, place))
        _check(found[0], folder)
        yield found
    finally:
        for place in made:
            _run("umount", "--lazy", str(place))


def set_date(host: Host, ahead_s: float) -> None:
    """Set a host's date this far ahead of the machine's, at once."""
    with Path(host.environment["STOKER_SIM_DATE"]).open("r+b", buffering=0) as file:
        file.write(struct.pack("=q", int(ahead_s * _NS)))  # one write: no reader sees half of it


def step(chance: random.Random) -> float:
    """Return by how much a date is set, in seconds; ahead or back."""
    most = chance.choice(STEPS_S)
    return chance.choice((-1, 1)) * chance.uniform(most / 10, most)


def _date(host: Host, folder: Path) -> Path:
    return folder / f"{host.name}-date"


def _with_clocks(host: Host, folder: Path, place: Path) -> Host:
    variables = {
        "LD_PRELOAD": str(paths.library(LIBRARY)),
        "STOKER_SIM_DATE": str(_date(host, folder)),
    }
    return dataclasses.replace(host, environment=variables, time_namespace=place)


def _check(host: Host, folder: Path) -> None:
    """Raise NotSupported if a host's date cannot be set here, so that no fault is one in name."""
    set_date(host, STEPS_S[-1])
    seen = _run(sys.executable, "-c", "import time; print(time.time())", **host.environment)
    set_date(host, 0.0)
    if float(seen) - time.time() < STEPS_S[-1] / 2:
        raise NotSupported("the date of a process cannot be set here: this Python preloads nothing")


def _run(*command: str, **variables: str) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    if done.returncode:
        raise Unavailable(f"`{' '.join(command)}`: {done.stderr.strip()}")
    return done.stdout
