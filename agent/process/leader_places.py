# SPDX-License-Identifier: Apache-2.0
"""The places of a node's state that exporters of the leader's node read, and whether it leads now.

The exporters of spans and of events run on each server; what they send is sent by one of them.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from stoker.agent.export import scheduler_metrics


class LeaderPlaces(NamedTuple):
    """The state folder, and its parts of the scheduler and of the agent."""

    root: Path
    scheduler: Path
    agent: Path

    def leads(self) -> bool:
        """True if the scheduler of this node says that it leads."""
        figures = scheduler_metrics.read(self.scheduler, time.time_ns())
        return figures is not None and figures.leads
