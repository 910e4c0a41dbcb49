# SPDX-License-Identifier: Apache-2.0
"""Record of the settings that cards had before stoker's first write; it survives a crash.

Invariants: while stoker has set a limit or a clock, a whole and synced record of the original
settings is on disk. An existing record is never overwritten by values that stoker itself has set.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from stoker.native import durable_file, paths
from stoker.native.errors import Corrupt, Refused, Unavailable

NAME = "power-record"
ENTRIES_MAX = 512
RESTORE_S = 15.0
NOT_RESTORED = "not restored"


class RecordedSetting(NamedTuple):
    """One setting of one card."""

    kind: str
    """nvidia, amd, intel, hwmon or file."""
    id: str
    """UUID, PCI address, the PCI device's folder or a file's path, without blanks."""
    what: str
    value: int


def path(agent_folder: Path) -> Path:
    """The path of the record."""
    return agent_folder / NAME


def store(where: Path, boot_id: str, found: Sequence[RecordedSetting]) -> None:
    """Write it whole and synced; Refused where the disk does not take it."""
    if len(found) > ENTRIES_MAX:
        raise Refused(f"{len(found)} settings of cards are more than {ENTRIES_MAX}")
    lines = [f"stoker-power 1 {boot_id}"]
    lines += [f"{each.kind} {each.id} {each.what} {each.value}" for each in found]
    lines.append(f"end {len(found)}")
    try:
        durable_file.replace(where, ("\n".join(lines) + "\n").encode())
    except OSError as error:
        raise Refused(f"{where}: {error.strerror}: no limit of a card is changed") from error


def load(where: Path) -> tuple[str, list[RecordedSetting]] | None:
    """(boot id, settings), or None where there is none; Corrupt for a damaged one."""
    try:
        lines = where.read_text().splitlines()
    except FileNotFoundError:
        return None
    try:
        word, version, boot_id = lines[0].split()
        found = [
            RecordedSetting(a, b, c, int(d))
            for a, b, c, d in (line.split() for line in lines[1:-1])
        ]
        whole = (word, version) == ("stoker-power", "1") and lines[-1] == f"end {len(found)}"
    except (ValueError, IndexError):
        whole = False
    if not whole:
        raise Corrupt(
            f"{where} is damaged: what cards were set to is not known",
            hint="Look at their limits (nvidia-smi -q -d POWER), then remove the file",
        )
    return boot_id, found


def restore(where: Path) -> str:
    """Restore everything on record; returns stoker-restore's errors, or an empty string.

    The record is removed if nothing failed. May take as long as the drivers do.
    """
    if not where.exists():
        return ""
    argv = [str(paths.program("stoker-restore")), "--record", str(where)]
    try:
        # A file, not a pipe: what hangs in a driver for good would keep a pipe open.
        with tempfile.TemporaryFile("w+") as said:
            done = subprocess.run(argv, stderr=said, timeout=RESTORE_S, check=False)
            said.seek(0)
            words = said.read().strip()
    except subprocess.TimeoutExpired:
        return f"stoker-restore did not end within {RESTORE_S:g} s"
    except OSError as error:
        raise Unavailable(f"{argv[0]}: {error.strerror}") from error
    return "" if done.returncode == 0 else words or f"exit code {done.returncode}"


def unrestored(wrong: str) -> frozenset[str]:
    """Ids of the cards that a failed `restore` named; empty if it named none, or failed as a
    whole."""
    ids = set()
    for line in wrong.splitlines():
        try:
            told = msgspec.json.decode(line, type=_Told)
        except msgspec.MsgspecError:
            return frozenset()
        if told.event == NOT_RESTORED:
            ids.add(told.detail.split()[1])
        elif told.level == "error":
            return frozenset()
    return frozenset(ids)


class _Told(msgspec.Struct):
    """A line of stoker-restore."""

    event: str
    level: str = ""
    detail: str = ""
