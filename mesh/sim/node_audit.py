# SPDX-License-Identifier: Apache-2.0
"""The auditor of nodes: what is drained, removed or given up gets nothing to start.

It looks after every entry and keeps books of its own from the drains, evictions and returns that
entries say. Owns the rules that nothing starts on a node that an earlier entry drained or gave up,
and that no job is moved off a node whose drains did not say so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stoker.mesh.log.entry import (
    Blob,
    DrainBlob,
    Entry,
    EvictBlob,
    MoveBlob,
    NodeBlob,
    NodeRemovedBlob,
)
from stoker.mesh.replica.changes import Applied
from stoker.mesh.sim.device_audit import started
from stoker.scheduler.nouns import NodeReport, StopJob

MOVED = "moved off "
"""The beginning of the reason of each stop that moves a job."""
UNNAMED = "a drained node"
"""The node in that reason if its drain ended in the entry of the stop."""

NO_BOOT = ""
"""The boot of a node that was removed: whatever reports itself under its name is another one."""


class GivenUp(NamedTuple):
    """A node that was given up or removed in its boot `boot_id`, by entry `seq`."""

    boot_id: str
    seq: int

    def is_back(self, report: NodeReport) -> bool:
        """True if nothing of before runs on the node that reports this."""
        return report.boot_id != self.boot_id or report.settled >= self.seq


class NodeAudit:
    """The auditor of one cluster's nodes."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self.moves = 0
        """The number of stops of tasks that move."""
        self._violated = violated
        self._drained: set[str] = set()
        self._moving: set[str] = set()
        """The nodes of which any drain has moved jobs."""
        self._gone: dict[str, GivenUp] = {}
        self._boots: dict[str, str] = {}

    def applied(self, entry: Entry, applied: Applied) -> None:
        """Check what one entry starts and stops."""
        seq = entry.prev_index + 1
        for blob in entry.blobs:
            self._before(blob)
        for node, starts in started(applied):
            if out := self._out(node):
                jobs = [start.job for start in starts]
                self._violated(f"entry {seq} starts the jobs {jobs} on {node}, which is {out}")
        for blob in entry.blobs:
            self._behind(blob, seq)
        self._moved(applied, seq)

    def _before(self, blob: Blob) -> None:
        """Enter what lets a node have jobs, which this entry may start already."""
        if isinstance(blob, DrainBlob) and not blob.why:
            self._drained.discard(blob.node)
        elif isinstance(blob, MoveBlob):
            self._moving.add(blob.node)
        elif isinstance(blob, NodeBlob):
            report = blob.report
            self._boots[report.node] = report.boot_id
            gone = self._gone.get(report.node)
            if gone is not None and gone.is_back(report):
                del self._gone[report.node]

    def _behind(self, blob: Blob, seq: int) -> None:
        """Enter what keeps jobs off a node, before which this entry may have started some."""
        if isinstance(blob, DrainBlob) and blob.why:
            self._drained.add(blob.node)
        elif isinstance(blob, EvictBlob):
            self._gone[blob.node] = GivenUp(self._boots.get(blob.node, ""), seq)
        elif isinstance(blob, NodeRemovedBlob):
            self._gone[blob.node] = GivenUp(NO_BOOT, seq)
            self._drained.discard(blob.node)

    def _out(self, node: str) -> str:
        """Return why a node gets nothing to start; empty if it may."""
        if node in self._gone:
            return "given up"
        return "drained" if node in self._drained else ""

    def _moved(self, applied: Applied, seq: int) -> None:
        for actions in applied.actions.values():
            for stop in actions:
                if not isinstance(stop, StopJob) or not stop.reason.startswith(MOVED):
                    continue
                self.moves += 1
                node = stop.reason.removeprefix(MOVED).split(",")[0]
                if node not in self._moving and not (node == UNNAMED and self._moving):
                    self._violated(f"entry {seq} moves job {stop.job} off {node} without a drain")
