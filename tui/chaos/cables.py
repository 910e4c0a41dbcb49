# SPDX-License-Identifier: Apache-2.0
"""A bad cable in the place of a host's good one: it loses frames, or delivers them late.

The host's end leaves the bridge for one of its own, and a process carries frames between the two,
so it needs nothing of the kernel but bridges and TAP devices, and one seed loses the same share
everywhere. Owns that `mend` leaves the cable as it was, also after half of `put_in`.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from stoker.native.errors import NotSupported, Unavailable
from stoker.tui.chaos.cable_process import DIRECTIONS, TUN
from stoker.tui.chaos.frame_queue import CableQuality
from stoker.tui.demo import network_hosts
from stoker.tui.demo.network_hosts import Host

END_S = 20.0


def check() -> None:
    """Raise NotSupported if no cable can be made bad here."""
    try:
        os.close(os.open(TUN, os.O_RDWR))
    except OSError as error:
        raise NotSupported(
            f"{TUN}: {error.strerror}: cables cannot be made bad",
            hint="load the module: modprobe tun",
        ) from error


class BadCable:
    """The cable of one host, with one quality for each direction that is bad."""

    def __init__(self, host: Host, qualities: Mapping[str, CableQuality], seed: int) -> None:
        self.qualities = qualities
        self._host, self._seed = host, seed
        self._own, self._to_host, self._to_others = (host.near + end for end in "bhn")
        """The bridge between the host and the process, and the process's two devices."""
        self._process: subprocess.Popen[str] | None = None
        self.did: dict[str, Any] = {}
        """Direction -> its quality and the FrameCounts, once the good cable is back."""

    def put_in(self) -> None:
        """Put the cable in, within some hundredths of a second."""
        ip = network_hosts.ip
        ip("link", "add", self._own, "type", "bridge")
        self._begin()
        ip("link", "set", self._to_host, "master", self._own, "up")
        ip("link", "set", self._to_others, "master", network_hosts.BRIDGE, "up")
        ip("link", "set", self._own, "up")
        ip("link", "set", self._host.near, "master", self._own)

    def _begin(self) -> None:
        good = CableQuality()
        qualities = {name: self.qualities.get(name, good) for name in DIRECTIONS}
        cable = {"near": self._to_host, "far": self._to_others, "seed": self._seed, **qualities}
        command = [sys.executable, "-m", "stoker.tui.chaos.cable_process", json.dumps(cable)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise Unavailable(f"the cable of {self._host.name} cannot be made bad")

    def mend(self) -> None:
        """Put the good cable back, and keep what the bad one did with frames."""
        network_hosts.ip("link", "set", self._host.near, "master", network_hosts.BRIDGE)
        try:
            said = self._end()
        finally:
            with contextlib.suppress(Unavailable):  # it was never made
                network_hosts.ip("link", "delete", self._own)
        counts = json.loads(said or "{}")
        self.did = {
            name: {**quality._asdict(), **counts.get(name, {})}
            for name, quality in self.qualities.items()
        }

    def _end(self) -> str:
        if self._process is None:
            return ""
        try:
            said, _ = self._process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise Unavailable(f"the cable of {self._host.name} does not end") from None
        if not said:
            raise Unavailable(f"the bad cable of {self._host.name} ended by itself")
        return said
