# SPDX-License-Identifier: Apache-2.0
"""The auditor of nodes notices starts on drained and dead nodes, and moves that none asked for."""

from __future__ import annotations

from stoker.mesh.log.entry import (
    NO_HASH,
    Blob,
    DrainBlob,
    Entry,
    EvictBlob,
    MoveBlob,
    NodeBlob,
    NodeRemovedBlob,
)
from stoker.mesh.replica.changes import Applied
from stoker.mesh.sim.node_audit import MOVED, UNNAMED, NodeAudit
from stoker.scheduler.nouns import (
    Action,
    Decision,
    JobSpec,
    NodeReport,
    Owner,
    StartJob,
    StopJob,
)

DRAINS, ENDS = DrainBlob("n1", "repair"), DrainBlob("n1", "")
MOVES = MoveBlob("n1", None, "root")
START = StartJob(
    1, 1, 0, 1, Decision(1, "n1", (), "", 0, placing=1), Owner("u", 1, 1), JobSpec(("job",))
)


class Bench:
    """An auditor and the entries that it is shown."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.audit = NodeAudit(self.found.append)
        self._index = 0

    def entry(self, *blobs: Blob, actions: tuple[Action, ...] = ()) -> list[str]:
        """Show an entry with what it has n1 do; return what was found wrong in it."""
        entry = Entry(1, "c", 1, 1, 1, self._index, NO_HASH, 0, 0, b"", blobs)
        self._index += 1
        self.found.clear()
        self.audit.applied(entry, Applied(actions={"n1": [*actions]}))
        return [*self.found]


def stop(off: str) -> StopJob:
    return StopJob(1, 1, 0, 1, f"{MOVED}{off}, drained by root")


def test_nothing_starts_on_a_drained_node() -> None:
    bench = Bench()
    assert bench.entry(DRAINS, actions=(START,)) == [], "it was placed before, in the same entry"
    assert bench.entry(actions=(START,)) == ["entry 2 starts the jobs [1] on n1, which is drained"]
    assert bench.entry(ENDS, actions=(START,)) == []
    assert bench.entry(actions=(START,)) == []


def test_only_a_drain_that_says_so_moves_jobs() -> None:
    bench = Bench()
    assert bench.entry(DRAINS, actions=(stop("n1"),)) == [
        "entry 1 moves job 1 off n1 without a drain"
    ]
    assert bench.entry(actions=(stop(UNNAMED),)) != []
    assert bench.entry(DRAINS, MOVES, actions=(stop("n1"),)) == []
    assert bench.entry(ENDS, actions=(stop(UNNAMED),)) == []
    assert bench.entry(actions=(stop("n2"),)) == ["entry 5 moves job 1 off n2 without a drain"]
    assert bench.audit.moves == 5


def test_another_stop_is_no_move() -> None:
    bench = Bench()
    assert bench.entry(actions=(StopJob(1, 1, 0, 1, "cancelled by u"),)) == []
    assert bench.audit.moves == 0


def up(boot_id: str, settled: int = 0) -> NodeBlob:
    return NodeBlob(NodeReport("n1", boot_id, 1, 1000, 1 << 30, (), settled=settled))


def test_nothing_starts_on_a_node_that_was_given_up_before_it_is_back() -> None:
    bench = Bench()
    assert bench.entry(up("b1")) == []
    assert bench.entry(EvictBlob("n1", 1, "silent"), actions=(START,)) == [], "it was placed before"
    gone = ["entry 3 starts the jobs [1] on n1, which is given up"]
    assert bench.entry(up("b1", settled=1), actions=(START,)) == gone
    assert bench.entry(up("b1", settled=2), actions=(START,)) == []
    bench.entry(EvictBlob("n1", 1, "silent"))
    assert bench.entry(up("b2"), actions=(START,)) == [], "it was booted again"


def test_nothing_starts_on_a_node_that_was_removed_before_another_one_has_its_name() -> None:
    bench = Bench()
    bench.entry(up("b1"), DRAINS)
    assert bench.entry(NodeRemovedBlob("n1", 1, "", "old"), actions=(START,)) != [], "drained"
    gone = ["entry 3 starts the jobs [1] on n1, which is given up"]
    assert bench.entry(actions=(START,)) == gone
    assert bench.entry(up("b1"), actions=(START,)) == [], "no drain is left either"
