# SPDX-License-Identifier: Apache-2.0
"""The core's answers: effects of applied commands, rejections, explanations and views.

Fields are plain numbers or names of `nouns`; sentences are made on request and never stored. The
views are generated from `native/core/wire.h` (`make generate`).
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.scheduler.reasons import BENIGN, RETRY, sentence
from stoker.scheduler.remedies import REMEDIES, Remedy
from stoker.scheduler.wire_effects import (
    Duplicate,
    Effect,
    Forgotten,
    Ignored,
    Release,
    Start,
    StateChanged,
    Stop,
    unpack_effects,
)
from stoker.scheduler.wire_views import (
    DeviceState,
    ExplainRecord,
    JobInfo,
    Label,
    NodeInfo,
    QueueInfo,
    QuotaInfo,
    RejectedRecord,
    Speed,
    TaskInfo,
)

__all__ = [
    "DeviceState",
    "Duplicate",
    "Effect",
    "Explained",
    "Forgotten",
    "Ignored",
    "JobInfo",
    "Label",
    "NodeInfo",
    "QueueInfo",
    "QuotaInfo",
    "Rejected",
    "Release",
    "Speed",
    "Start",
    "StateChanged",
    "Stop",
    "TaskInfo",
    "unpack_effects",
]


class Rejected(RejectedRecord):
    """A request that became no command. The state is as if it had not been made."""

    __slots__ = ()

    @property
    def benign(self) -> bool:
        """Return True for a repeated report that only needs an acknowledgement."""
        return self.reason in BENIGN

    @property
    def retry(self) -> bool:
        """Return True if the request is valid and belongs into the next batch."""
        return self.reason in RETRY

    def text(self) -> str:
        """Return one sentence, e.g. "asks for 4 devices, the largest node has 1"."""
        return sentence(self.reason, asked=self.asked, have=self.have, job=self.job)


class Explained(ExplainRecord):
    """One line of an explanation, ranked by importance; unused figures are 0."""

    __slots__ = ()

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """Return remedies, the least intrusive first; empty if no action is needed."""
        return REMEDIES.get(self.reason, ())

    def text(self, node_name: Callable[[int], str] = str) -> str:
        """Return one sentence; `node_name` turns the core's node id into a name."""
        node = node_name(self.node) if self.node else ""
        return sentence(
            self.reason,
            asked=self.asked,
            have=self.have,
            job=self.job,
            node=node,
            count=self.number,
        )
