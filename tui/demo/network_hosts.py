# SPDX-License-Identifier: Apache-2.0
"""Hosts for a demo or for faults: network namespaces at one bridge, made and removed here.

They share everything but the network: this machine's CPUs, disk and users. The process itself moves
into a namespace of its own, which is the network between them, so the machine's own network stays
as it is, and the process watches whichever host dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stoker.mesh.connection import context
from stoker.native.errors import Denied, NotSupported, Unavailable

NETWORK = "10.213.0"
"""The network of the hosts, which nothing outside of them sees."""
BRIDGE = "stoker0"
NOBODY = "02:00:00:00:00:99"
"""The hardware address of no host."""
VERB_S = 120.0
END_S = 20.0
_INSIDE = "STOKER_DEMO_NETWORK"
"""The variable that tells the process that it is in a network of its own."""
TOOLS = {"ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux"}
"""Program -> the package that has it."""


def enter() -> None:
    """Start this command again in a network of its own, with mounts of its own; return only if it
    is there already."""
    if os.environ.get(_INSIDE):
        return
    if os.geteuid() != 0:
        raise Denied(
            "the hosts are network namespaces, which root alone can make",
            hint=f"run it as root: sudo {' '.join(['stoker', *sys.argv[1:]])}",
        )
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            raise NotSupported(f"there is no `{tool}` here", hint=f"install the package {package}")
    os.environ[_INSIDE] = "1"
    command = ["unshare", "--net", "--mount", "--", sys.executable, "-m", "stoker", *sys.argv[1:]]
    os.execvp(command[0], command)


@dataclass(frozen=True)
class Host:
    """One host."""

    name: str
    address: str
    state: Path
    namespace: str
    near: str
    """The interface of its cable at the bridge."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables of every verb there."""
    time_namespace: Path | None = None
    """The file of the time namespace of its processes; None for the machine's clocks."""

    def stoker(
        self, *words: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None
    ) -> str:
        """Run one verb there on its node, with more variables of `environment`; return what it
        wrote, or raise Unavailable."""
        there = ["nsenter", f"--net=/run/netns/{self.namespace}"]
        if self.time_namespace is not None:
            there.append(f"--time={self.time_namespace}")
        try:
            done = subprocess.run(
                [*there, sys.executable, "-m", "stoker", *words, "--state", str(self.state)],
                input=stdin,
                env={k: v for k, v in os.environ.items() if k != "STOKER_STATE"}
                | {**self.environment, **(environment or {})},
                cwd="/",
                capture_output=True,
                start_new_session=True,
                timeout=VERB_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            verb = f"`stoker {' '.join(words)}` on {self.name}"
            raise Unavailable(f"{verb} has not ended within {VERB_S:g} s") from None
        if done.returncode:
            wrote = (done.stderr or done.stdout).decode(errors="replace").strip()
            verb = f"`stoker {' '.join(words)}` on {self.name}"
            raise Unavailable(f"{verb} exited with {done.returncode}: {wrote}")
        return done.stdout.decode()

    def lose_power(self) -> int:
        """Cut its cable and kill every process there, jobs too; return how many there were."""
        self.cut()
        killed: set[int] = set()
        deadline = time.monotonic() + END_S
        while pids := self.processes():
            if time.monotonic() > deadline:
                raise Unavailable(f"processes of {self.name} do not end: {pids}")
            for pid in pids:
                killed.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return len(killed)

    def processes(self) -> list[int]:
        """Return the processes in its namespace."""
        return [int(word) for word in ip("netns", "pids", self.namespace).split()]

    def program(self, name: str) -> int:
        """Return the process that its supervisor has started by this name; 0 if none lives."""
        return next((pid for pid, program in self.programs().items() if program == name), 0)

    def programs(self) -> dict[int, str]:
        """Return the processes that its supervisor has started, and their names."""
        start = f"STOKER_PROCESS={context.instance(self.state)}/"
        found = {}
        for pid in self.processes():
            with contextlib.suppress(OSError):
                environment = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
                for variable in environment.split("\0"):
                    if variable.startswith(start) and variable.endswith(f"/{pid}"):
                        found[pid] = variable.removeprefix(start).split("/")[0]
        return found

    def cut(self) -> None:
        """Take its cable out."""
        ip("link", "set", self.near, "down")

    def plug_in(self) -> None:
        """Put its cable back."""
        ip("link", "set", self.near, "up")

    def unheard_by(self, others: Iterable[Host]) -> None:
        """Let everything that it sends to the others get lost, while it hears them: frames go to
        an address that nobody has."""
        for other in others:
            to_nobody = (*_neighbour("replace", other), "lladdr", NOBODY, "nud", "permanent")
            ip("-n", self.namespace, *to_nobody)

    def heard_by(self, others: Iterable[Host]) -> None:
        """Undo `unheard_by`."""
        for other in others:
            ip("-n", self.namespace, *_neighbour("delete", other))


@contextlib.contextmanager
def made(names: Sequence[str], folder: Path, *, acquainted: bool = False) -> Iterator[list[Host]]:
    """Yield hosts of these names, with their places in `folder`.

    `acquainted`: each has the hardware addresses of all from the start. What hosts ask for is in a
    table of the kernel that has room for 1,024 answers in all namespaces together, so that more
    than about 50 hosts that talk with each other lose packets.
    """
    hosts = [
        Host(name, f"{NETWORK}.{n}", folder / name, f"stoker-demo-{os.getpid()}-{name}", f"sk{n}")
        for n, name in enumerate(names, 1)
    ]
    ip("link", "set", "lo", "up")
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("address", "add", f"{NETWORK}.254/24", "dev", BRIDGE)
    ip("link", "set", BRIDGE, "up")
    try:
        for host in hosts:
            _plug_in(host)
        if acquainted:
            _acquaint(hosts)
        yield hosts
    finally:
        for host in hosts:
            with contextlib.suppress(Unavailable):  # it was never made
                ip("netns", "delete", host.namespace)


def _plug_in(host: Host) -> None:
    """Make a namespace and its cable to the bridge."""
    ip("netns", "add", host.namespace)
    ip(
        *("link", "add", host.near, "type", "veth", "peer", "name", "eth0"),
        *("netns", host.namespace),
    )
    ip("link", "set", host.near, "master", BRIDGE, "up")
    ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", "eth0")
    for device in ("lo", "eth0"):
        ip("-n", host.namespace, "link", "set", device, "up")


def _acquaint(hosts: Sequence[Host]) -> None:
    """Give each host, and the network between them, the hardware addresses of all others."""
    cards = {host.name: _hardware_address(host) for host in hosts}

    def known_to(place: Sequence[str], device: str, others: Iterable[Host]) -> None:
        lines = (
            f"neighbour replace {each.address} lladdr {cards[each.name]} nud permanent dev {device}"
            for each in others
        )
        ip(*place, "-batch", "-", stdin="\n".join(lines))

    known_to((), BRIDGE, hosts)
    for host in hosts:
        known_to(("-n", host.namespace), "eth0", (each for each in hosts if each is not host))


def _hardware_address(host: Host) -> str:
    shown = json.loads(ip("-n", host.namespace, "-json", "link", "show", "dev", "eth0"))
    return str(shown[0]["address"])


def _neighbour(verb: str, host: Host) -> tuple[str, ...]:
    return "neighbour", verb, host.address, "dev", "eth0"


def namespaces() -> list[str]:
    """Return the namespaces of this process's demo that are there now."""
    start = f"stoker-demo-{os.getpid()}-"
    return [path.name for path in Path("/run/netns").glob(f"{start}*")]


def ip(*words: str, stdin: str = "") -> str:
    """Run `ip` in the network between the hosts; return what it wrote, or raise Unavailable."""
    done = subprocess.run(
        ["ip", *words], input=stdin, capture_output=True, text=True, timeout=END_S, check=False
    )
    if done.returncode:
        raise Unavailable(f"`ip {' '.join(words)}`: {done.stderr.strip()}")
    return done.stdout
