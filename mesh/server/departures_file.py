# SPDX-License-Identifier: Apache-2.0
"""The file in which a scheduler leaves the removed nodes for those who take their keys back.

The log has them; the file follows from it, so that a process which cannot read the log knows them
at any later time. It is written before anybody is told that it changed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from stoker.mesh.identity import sealed_json
from stoker.native import durable_file
from stoker.native.errors import Corrupt
from stoker.scheduler.departures import NONE, Departures

FILE = "departures.json"


class DepartedNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One removed node, as `scheduler/departures.py` has it."""

    node: str
    key: str
    at_ns: int
    why: str


class DepartedNodes(msgspec.Struct, frozen=True):
    """All of the file."""

    nodes: list[DepartedNode]


class DeparturesFile:
    """The file of one scheduler; call `follow` with its state as often as it may have changed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._written: tuple[int, int] | None = None
        """The mark of the departures that the file has; None if that is not known."""

    async def follow(self, departures: Departures) -> None:
        """Write the file if nodes were removed since; a full disk is tried again next time."""
        mark = departures.mark
        if mark == self._written:
            return
        if mark == NONE and not self._path.exists():
            self._written = mark
            return
        rows = [DepartedNode(row.node, row.key, row.at_ns, row.why) for row in departures]
        try:
            await asyncio.to_thread(
                durable_file.replace, self._path, sealed_json.encode(DepartedNodes(rows))
            )
        except OSError as error:
            from stoker.native.structured_log import structlog  # not loaded by the supervisor

            log = structlog.get_logger("scheduler")
            log.error("the removed nodes cannot be written", error=str(error))
        else:
            self._written = mark


def read(path: Path) -> list[DepartedNode]:
    """Return the removed nodes, the oldest first; none if no node was ever removed."""
    try:
        return sealed_json.decode(path.read_bytes(), DepartedNodes).nodes
    except FileNotFoundError:
        return []
    except msgspec.MsgspecError as error:
        raise Corrupt(f"{path}: {error}", hint="The scheduler writes it anew") from None
