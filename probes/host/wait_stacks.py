# SPDX-License-Identifier: Apache-2.0
"""Names for the stacks of long waits: functions of the kernel, files and offsets of programs.

Addresses of a program are given as file and offset, which any symbol tool understands; those of an
ended process are given bare, as are the kernel's if it hides its symbols.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from stoker.probes.host.kernel_symbols import KERNEL_SYMBOLS, KernelSymbols

CALL_UNKNOWN = 0xFFFF
PROCESSES_MAX = 256
"""The most processes whose maps are kept; beyond it all are read again."""
SCHEDULER = ("__schedule", "schedule")


class StackWait(msgspec.Struct, frozen=True):
    """The waits of one process's threads at one place, longer than the probes' threshold."""

    pid: int
    system_call: int | None
    """The number of the system call it waits in; None: a page fault, or unknown."""
    seen: int
    """The number of waits whose stack was taken."""
    count: int
    """The number of waits they stand for; those of a thread that blocks often are sampled."""
    total_ns: int
    """The total time of all those waits, weighted like their number."""
    longest_ns: int
    kernel: tuple[str, ...]
    """The frames, innermost first."""
    user: tuple[str, ...]


class Symbols:
    """Names of addresses.

    The kernel's table is read once, a process's on first use and again for an address that is not
    in it. It is kept after the process has ended.
    """

    def __init__(self, kernel: Path = KERNEL_SYMBOLS, proc: Path = Path("/proc")) -> None:
        self._kernel_file = kernel
        self._proc = proc
        self._kernel: KernelSymbols | None = None
        self._maps: dict[int, list[tuple[int, int, int, str]]] = {}

    def wait_of(
        self,
        record: tuple[int, int, int, int, int, int, int, int],
        stack: Callable[[int], list[int]],
    ) -> StackWait:
        """Return a record of the kernel's side with names; `stack` gives the addresses of an id."""
        pid, call, kernel_id, user_id, seen, weight, ns, longest = record
        return StackWait(
            pid,
            None if call == CALL_UNKNOWN else call,
            seen,
            weight,
            ns,
            longest,
            wait_path([self.of_kernel(address) for address in stack(kernel_id)]),
            tuple(self.of_process(pid, address) for address in stack(user_id)),
        )

    def of_kernel(self, address: int) -> str:
        """Return the `function`, or the address if the kernel hides it."""
        if self._kernel is None:
            self._kernel = KernelSymbols.read(self._kernel_file)
        return self._kernel.name(address) or hex(address)

    def of_process(self, pid: int, address: int) -> str:
        """Return `file+0xoffset`, or the address if the process does not map it any more."""
        return self._known(pid, address) or self._looked_up(pid, address) or hex(address)

    def _known(self, pid: int, address: int) -> str:
        for start, end, offset, name in self._maps.get(pid, ()):
            if start <= address < end:
                return f"{name}+{address - start + offset:#x}"
        return ""

    def _looked_up(self, pid: int, address: int) -> str:
        found = process_maps(self._proc / str(pid) / "maps")
        if not found or found == self._maps.get(pid):
            return ""
        if len(self._maps) >= PROCESSES_MAX:
            self._maps.clear()
        self._maps[pid] = found
        return self._known(pid, address)


def wait_path(frames: list[str]) -> tuple[str, ...]:
    """Return the frames from the scheduler's on; the inner ones are those of the probe."""
    inner = next((at for at, name in enumerate(frames) if name.startswith(SCHEDULER)), 0)
    return tuple(frames[inner:])


def process_maps(path: Path) -> list[tuple[int, int, int, str]]:
    """Return (start, end, file offset, file) of a process's mapped files; empty if it is gone."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        span, _, offset, _, inode, *name = line.split(maxsplit=5)
        if inode != "0" and name:
            start, end = (int(each, 16) for each in span.split("-"))
            found.append((start, end, int(offset, 16), name[0]))
    return found
