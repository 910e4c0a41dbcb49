# SPDX-License-Identifier: Apache-2.0
"""The work that logs what a node reports about its attempts.

Owns the rule that an outcome counts only for the attempt that the log's own entry placed. A node
may know another one of that name, from before the cluster was restored from an older log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stoker.mesh.log.entry import Blob, OutcomeBlob
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works.work import Fate, Work
from stoker.mesh.wire.command import NodeReply
from stoker.scheduler import nouns, records
from stoker.scheduler.names import name_id
from stoker.scheduler.reasons import Reason


class OutcomeWork(Work):
    """The outcomes that a node reports; one of an attempt that the log does not know is dropped and
    counted, and the node need not repeat it."""

    __slots__ = ("_count", "_known", "_node", "_reported")

    def __init__(
        self,
        token: Any,
        node: str,
        outcomes: Sequence[nouns.Outcome],
        count: Callable[[str, int], None],
    ) -> None:
        self._node = name_id(node)
        self._reported = self._known = tuple(outcomes)
        self._count = count
        super().__init__(token, *self._made())

    def _made(self) -> tuple[list[records.Request], int]:
        """Return the requests, and the bytes of their blobs."""
        requests: list[records.Request] = [
            records.TaskOutcome(
                job=o.job,
                attempt=o.attempt,
                task=o.task,
                node=self._node,
                state=records.STATE_CODES[o.job_state],
                exit_code=o.exit_code,
                signal=o.signal,
                device_ns=o.device_ns,
                run_ns=max(0, o.t_ns - o.started_ns) if o.started_ns and _ended(o) else 0,
                reason=Reason.NOT_LAUNCHED if o.state == "unlaunched" else 0,
                launch_ns=o.launch_ns or 0,
            )
            for o in self._known
        ]
        return requests, sum(130 + len(o.reason.encode()) for o in self._known)

    def refresh(self, state: ReplicaState) -> None:
        placing = state.book.placing
        known = tuple(o for o in self._reported if o.placing == placing(o.job, o.attempt))
        if known != self._known:
            self._known = known
            self._pack(*self._made())

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        return [
            OutcomeBlob(fate.command, outcome)
            for fate, outcome in zip(fates, self._known, strict=True)
            if fate.command >= 0
        ]

    def answer(self, fates: list[Fate], applied: Applied, state: ReplicaState) -> Any:
        if unknown := len(self._reported) - len(self._known):
            self._count("outcome_unknown", unknown)
        # A rejected outcome would be rejected again, so the node must not repeat it.
        wrong = [fate.rejected for fate in fates if fate.rejected and not fate.rejected.benign]
        return NodeReply(True, message="; ".join(r.text() for r in wrong[:8]), term=state.term)


def _ended(outcome: nouns.Outcome) -> bool:
    """True for the end of a program that ran, whose times are those of its run."""
    return outcome.state in nouns.ENDED
