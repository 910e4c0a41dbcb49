# SPDX-License-Identifier: Apache-2.0
"""The ranks of one job: their calls matched into operations, in C, and told as rows.

Records and times come in as arguments. Owns the invariant that a process is a rank from before its
first record until it is gone, and that one whose calls are not seen any more waits for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from stoker.native import _peers
from stoker.probes.calls.call_targets import TARGETS, WAITS, CallTarget
from stoker.probes.collectives.collective_rows import (
    Collectives,
    CommunicatorRow,
    MemberRow,
    MissingRow,
    OperationRow,
    RankRow,
    StuckRow,
    stuck_text,
)
from stoker.probes.collectives.rank_identity import RankIdentity
from stoker.probes.collectives.starved_rank import starved_rank
from stoker.probes.collectives.straggler import straggler
from stoker.probes.collectives.unnamed import unnamed

STUCK_NS = 3_000_000_000
"""An operation that some ranks have waited in for this time without the others is told as stuck."""

RECORD_BYTES = _peers.RECORD_BYTES
"""Size of one record of the kernel."""

_ORIGINS = {1: "world", 2: "made", 3: "nccl"}
"""sk_trace_peers_origin -> the first word of a communicator's name."""


class SpreadGroup(msgspec.Struct, frozen=True):
    """A communicator with ranks on other nodes, or all that one call made of it, and the members
    here."""

    key: int
    """A number that it has on all nodes."""
    size: int
    call: str
    """The newest call on it here."""
    members: tuple[SpreadMember, ...]


class SpreadMember(msgspec.Struct, frozen=True):
    """A rank of such a communicator; `since_ns`: it waits in the newest of the operations that it
    has entered since then, 0 if it does not."""

    rank: int
    pid: int
    entered: int
    own_ns: int
    queued_ns: int
    since_ns: int
    from_start: bool
    part: int = 0
    """Those with the same number are in one communicator."""


class JobRanks:
    """One job; for one thread."""

    def __init__(self, targets: Sequence[CallTarget] = TARGETS) -> None:
        self._names = [target.id for target in targets]
        kinds = bytes(WAITS.index(target.waits) for target in targets)
        self._peers = _peers.Peers(kinds)
        self._known: set[int] = set()
        self._going: set[int] = set()
        self._told_ns = 0
        self.refused = 0
        """Processes that found no room."""

    def add(
        self, records: bytes, ranks: Mapping[int, RankIdentity], alive: Callable[[int], bool]
    ) -> int:
        """Add records of one or more jobs; returns how many were of this one.

        `ranks`: the processes whose calls are seen, read after the records were taken from the
        kernel. The last records of a process may come when it is not among them any more, so it
        goes with the next call.
        """
        for pid in ranks.keys() - self._known:
            one = ranks[pid]
            size = one.size if one.world else 0
            rank = one.rank if one.launched or one.world else _peers.RANK_NONE
            if self._peers.join(pid, rank, one.key, size, one.world):
                self.refused += 1
            elif one.from_start:
                self._peers.start(pid)
            self._known.add(pid)
        taken = self._peers.add(records)
        for pid in self._going - ranks.keys():
            if alive(pid):
                self._peers.blind(pid)
            else:
                self._peers.leave(pid)
            self._known.discard(pid)
        self._going = self._known - ranks.keys()
        return taken

    def show(self, to_ns: int) -> None:
        """Count waits that go on up to `to_ns`: all records before it were added."""
        self._peers.show(to_ns)
        self._told_ns = to_ns

    def take(self) -> dict[int, bytes]:
        """Return the waits of threads since the last call, as spans, by process."""
        return self._peers.take()

    @property
    def told_ns(self) -> int:
        """The time up to which all waits are known."""
        return self._told_ns

    def pids(self) -> list[tuple[int, int]]:
        """Return (rank, its newest process)."""
        return [(row[0], row[1]) for row in self._peers.ranks()]

    @property
    def seen(self) -> bool:
        """True if any process of the job is or was a rank."""
        return bool(self._known) or bool(self._peers.ranks())

    @property
    def strange(self) -> bool:
        """True if calls of NCCL may have been on communicators that were not seen to be made."""
        made = any(_ORIGINS[row[1]] == "nccl" for row in self._peers.groups())
        return not made or bool(self._peers.losses()["peers.handle"])

    def spread(self) -> tuple[SpreadGroup, ...]:
        """Return the communicators with ranks on other nodes, the most used first."""
        times = {row[0]: (row[12], row[11]) for row in self._peers.ranks()}
        calls: dict[tuple[int, int], str] = {}
        found: dict[tuple[int, int], list[SpreadMember]] = {}
        for key, size, part, members in self._peers.spread():
            for rank, pid, entered, call, since_ns, from_start in members:
                name = key, size
                calls[name] = max(calls.get(name, ""), self._doing(call))
                found.setdefault(name, []).append(
                    SpreadMember(rank, pid, entered, *times[rank], since_ns, from_start, part)
                )
        groups = (SpreadGroup(*name, calls[name], tuple(each)) for name, each in found.items())
        return tuple(sorted(groups, key=lambda row: -max(m.entered for m in row.members)))

    def stuck(self, now_ns: int, after_ns: int = STUCK_NS) -> tuple[StuckRow, ...]:
        """Return the operations that have not gone on for `after_ns`."""
        names = {row[0]: name for row, name in self._named()}
        return tuple(
            StuckRow(
                names[group],
                self._names[call],
                number,
                since_ns,
                waiting,
                tuple(MissingRow(r, self._doing(call), ns) for r, call, ns in missing),
            )
            for group, call, number, since_ns, waiting, missing in self._peers.stuck(
                now_ns, after_ns
            )
        )

    def collectives(self, now_ns: int) -> Collectives:
        """Return everything as rows."""
        found = self._rows(now_ns)
        named = straggler(found), starved_rank(found)
        said = (
            *(stuck_text(row, now_ns) for row in found.stuck),
            *(each.text for each in named if each is not None),
        )
        why = unnamed(found) if named[0] is None else ""
        return msgspec.structs.replace(found, said=said, unnamed=why)

    def _rows(self, now_ns: int) -> Collectives:
        return Collectives(
            now_ns,
            tuple(RankRow(*row) for row in self._peers.ranks()),
            tuple(
                CommunicatorRow(
                    name,
                    size,
                    aligned,
                    settled,
                    wait_ns,
                    tuple(sorted((MemberRow(*each) for each in members), key=_by_rank)),
                )
                for (_, _, size, aligned, settled, wait_ns, members), name in self._named()
            ),
            tuple(OperationRow(self._names[c], n, ns) for c, n, ns in self._peers.operations()),
            self.stuck(now_ns),
            self._peers.losses() | {"peers.process": self.refused},
        )

    def _doing(self, call: int | None) -> str:
        return "" if call is None else self._names[call]

    def _named(self) -> list[tuple[_peers.Group, str]]:
        counts: dict[str, int] = {}
        found = []
        for row in self._peers.groups():
            word = _ORIGINS[row[1]]
            counts[word] = counts.get(word, 0) + 1
            found.append((row, word if counts[word] == 1 else f"{word} {counts[word]}"))
        return found


def _by_rank(row: MemberRow) -> int:
    return row.rank
