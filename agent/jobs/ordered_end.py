# SPDX-License-Identifier: Apache-2.0
"""The end of an agent in order: the steps after which no job waits for it that has not begun here.

Pure. Owns their order: the log has the report that refuses jobs before the state is requested that
names the last starts; each of them is given back, and the log has that before the agent ends.
"""

from __future__ import annotations

import msgspec

from stoker.scheduler.nouns import NodeReport

LEAVES = "its agent was stopped in order"
"""The reason for which a node refuses jobs until its next agent reports itself."""


class OrderedEnd:
    """The steps of one agent."""

    def __init__(self) -> None:
        self.begun = False
        self._said = self._requested = self._known = False

    @property
    def is_known(self) -> bool:
        """True once every start was read that the log may have for this agent."""
        return self._known

    def report(self, report: NodeReport) -> NodeReport:
        """Return the report as it is to be sent: it refuses jobs once the end has begun."""
        if not self.begun:
            return report
        return msgspec.structs.replace(
            report, drain="; ".join(filter(None, (report.drain, LEAVES)))
        )

    def greeted(self, report: NodeReport) -> None:
        """Note that the log has a report."""
        self._said = self._said or (self.begun and report.drain.endswith(LEAVES))

    def requested(self) -> None:
        """Note that the desired state is requested; answers to earlier requests count no more."""
        self._requested = self._said

    def read(self) -> None:
        """Note that the state was read which was requested last."""
        self._known = self._requested
