# SPDX-License-Identifier: Apache-2.0
"""The cost of one hit of a probe on this machine, by the site's first instruction.

It is measured once a boot and kept with the boot's id, as it depends on kernel and CPU. If it
cannot be measured, marked figures of another machine are used.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import msgspec

from stoker.native.errors import NotSupported
from stoker.probes.calls.prologue import TRAPS, Trap

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
FORMAT = 1
FILE_MAX = 1 << 16
HIT_MAX_NS = 10_000_000
"""The highest plausible cost of a hit; a file with a higher one is rejected."""


class TrapCosts(msgspec.Struct, frozen=True):
    """The ns of one hit including our program, by kind; a missing kind is unknown."""

    both_ns: dict[Trap, int]
    """The costs with entry and return probed."""
    entry_ns: dict[Trap, int]
    """The costs with entry alone probed."""
    source: str
    boot_id: str = ""

    def hit_ns(self, trap: Trap, *, entry_only: bool) -> int | None:
        """Return the cost of a hit, or None for a kind that was not measured."""
        return (self.entry_ns if entry_only else self.both_ns).get(trap)


ELSEWHERE = TrapCosts(
    {
        "nop5": 554,
        "push": 791,
        "nop1": 780,
        "nop": 14_300,
        "branch": 791,
        "endbr64": 14_300,
        "other": 14_300,
    },
    {
        "nop5": 189,
        "push": 407,
        "nop1": 396,
        "nop": 13_900,
        "branch": 407,
        "endbr64": 13_900,
        "other": 13_900,
    },
    "measured elsewhere: Linux 6.18 in a virtual machine",
)
"""The costs if nothing can be measured; older kernels single-step all nops but these two."""


def measure() -> TrapCosts:
    """Probe and call functions of our own: about 45 ms of CPU. Raises NotSupported."""
    try:
        from stoker.native import _calls
    except ImportError as error:
        raise NotSupported(f"this build has no eBPF part ({error})") from None
    named, why = _calls.trap_costs()
    if why:
        raise NotSupported(f"the cost of a probe's hit could not be measured: {why}")
    found = {trap: named[trap] for trap in TRAPS if trap in named}
    return TrapCosts(
        {trap: both for trap, (both, _) in found.items()},
        {trap: entry for trap, (_, entry) in found.items()},
        "measured on this machine",
        boot_id(),
    )


def boot_id() -> str:
    """Return the kernel's id of this boot, or an empty string."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def known_costs(path: Path) -> TrapCosts:
    """Return the costs kept at `path` in this boot, else measured ones, else the defaults."""
    kept = load(path)
    if kept is not None:
        return kept
    try:
        costs = measure()
    except NotSupported as error:
        return TrapCosts(
            ELSEWHERE.both_ns, ELSEWHERE.entry_ns, f"{ELSEWHERE.source} ({error.message})"
        )
    with contextlib.suppress(OSError):  # a full disk: it is measured again at the next start
        save(path, costs)
    return costs


def save(path: Path, costs: TrapCosts) -> None:
    """Write the costs atomically; raises OSError."""
    record = {
        "format": FORMAT,
        "boot_id": costs.boot_id,
        "both_ns": costs.both_ns,
        "entry_ns": costs.entry_ns,
    }
    made = path.with_name(f"{path.name}.new")
    made.write_text(json.dumps(record))
    made.replace(path)


def load(path: Path) -> TrapCosts | None:
    """Return the costs measured in this boot; None for another boot, another format or damage."""
    try:
        with path.open("rb") as file:
            record = json.loads(file.read(FILE_MAX))
        if record["format"] != FORMAT or not record["boot_id"] or record["boot_id"] != boot_id():
            return None
        both, entry = (_costs(record[name]) for name in ("both_ns", "entry_ns"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return TrapCosts(both, entry, "measured on this machine", record["boot_id"])


def _costs(record: dict[str, int]) -> dict[Trap, int]:
    found = {trap: record[trap] for trap in TRAPS if trap in record}
    if not found or not all(type(ns) is int and 0 < ns <= HIT_MAX_NS for ns in found.values()):
        raise ValueError("no costs")
    return found
