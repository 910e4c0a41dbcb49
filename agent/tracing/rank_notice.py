# SPDX-License-Identifier: Apache-2.0
"""A rank in trouble, as the tracing thread and the verdicts about a gang tell the agent of it."""

from __future__ import annotations

import msgspec

from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.tracing.rank_watch import TroubledRank


class RankNotice(msgspec.Struct, frozen=True):
    """A rank that keeps others waiting, or does so no more. `home`: the start that it is in, if it
    is on this node; `starts`: those of its gang on this node."""

    found: TroubledRank
    home: StartRecord | None
    starts: tuple[StartRecord, ...]

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices of its task."""
        return self.home.devices if self.home is not None else ()
