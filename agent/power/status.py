# SPDX-License-Identifier: Apache-2.0
"""Status of the power loop, told once a second in a file that `stoker power` reads.

Invariants: the file is replaced in one step, and a value that is not known is null. A status that
still holds is not written again: the time of the file says when it was told last.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from stoker.agent.power.plan.action import PowerAction
from stoker.agent.power.plan.rules import PowerRules
from stoker.native.errors import Unavailable

NAME = "power.json"


class DecidedAction(msgspec.Struct, frozen=True):
    """One action, its reason, and the readings behind it."""

    t_ns: int
    number: int
    card: str
    what: str
    value: float
    reason: str
    done: bool
    """False if the action was only observed."""
    power_w: float | None = None
    limit_w: float | None = None
    temperature_c: float | None = None
    busy: float | None = None
    clock_mhz: float | None = None

    def fields(self) -> dict[str, Any]:
        """Fields of the log line."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "t_ns"}


class CardStatus(msgspec.Struct, frozen=True):
    """State of one card."""

    id: str
    limit_w: float | None
    range: tuple[float, ...]
    """Lowest, default and highest limit; zeros where it takes none."""
    power_w: float | None
    temperature_c: float | None
    ceiling_c: float
    refused: str = ""
    sim: bool = False
    """True if its driver is simulated."""
    holds_w: float | None = None
    """Part of the budget reserved for it: the most it may draw before another limit is set."""
    gone: bool = False
    """True if it is off the bus."""
    idle: bool = False
    note: str = ""
    """The limit of its jobs in words, if the device itself takes no limit."""


class Status(msgspec.Struct, frozen=True):
    """Contents of the status file."""

    t_ns: int
    control: str
    why: str
    """Reason why nothing is controlled; empty while it is."""
    rules: PowerRules
    committed_w: float | None
    """Limits as confirmed, writes under way, and what cannot be capped: the sum of `holds_w`."""
    cards: tuple[CardStatus, ...] = ()
    absent: dict[str, str] = {}
    decisions: tuple[DecidedAction, ...] = ()


def decided(action: PowerAction, t_ns: int, *, done: bool) -> DecidedAction:
    """The record of one action for the status."""
    rests = action.rests_on
    return DecidedAction(
        t_ns,
        action.number,
        action.card,
        action.what,
        round(action.value, 1),
        action.reason,
        done,
        *((rests.power_w, rests.limit_w, rests.temperature_c, rests.busy, rests.clock_mhz)
          if rests else ()),
    )  # fmt: skip


def write(run: Path, status: Status) -> None:
    """Replace the file; a full disk is not worth ending the loop for."""
    partial = run / f".{NAME}.new"
    try:
        partial.write_bytes(msgspec.json.encode(status))
        partial.replace(run / NAME)
    except OSError:
        return


def renew(run: Path) -> bool:
    """Tell the status of the file once more, at a tenth of the cost; False if that fails."""
    try:
        os.utime(run / NAME)
    except OSError:
        return False
    return True


def read(run: Path, start: str = "stoker up") -> Status:
    """Return the newest status; Unavailable without one, and its hint is the command `start`."""
    try:
        with (run / NAME).open("rb") as file:
            told_ns = os.fstat(file.fileno()).st_mtime_ns
            found = msgspec.json.decode(file.read(), type=Status)
        return msgspec.structs.replace(found, t_ns=max(found.t_ns, told_ns))
    except FileNotFoundError:
        raise Unavailable("no agent runs here that tells about power", hint=start) from None
    except (OSError, msgspec.MsgspecError) as error:
        raise Unavailable(f"{run / NAME}: {error}") from None
