# SPDX-License-Identifier: Apache-2.0
"""The policies that traces of jobs are replayed under: settings of the core's queues, no more.

A policy here decides nothing; it names the order and options that the core's own code goes by.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stoker.native.errors import BadRequest
from stoker.scheduler.policies import Option, Order


class TracePolicy(NamedTuple):
    """One column of the table."""

    name: str
    order: Order
    text: str
    preempts: bool = False
    by_tenant: bool = False
    """A queue for each tenant, all with the same weight, instead of one for all."""
    round_s: int = 0
    """Ask the core so often while jobs wait, besides at every arrival and end."""
    min_run_s: int = 0
    """A job is left alone so long after each start."""

    @property
    def options(self) -> int:
        return Option.PREEMPTIBLE | Option.PREEMPTOR if self.preempts else 0


ROUND_S: Final = 360
"""Length of a scheduling round, as in Gavel (OSDI'20); stopping pays off no sooner."""
QUANTUM_S: Final = 3600

_ALL: Final = (
    TracePolicy("fifo", Order.FIFO, "in the order of arrival; the first that does not fit blocks"),
    TracePolicy("any", Order.ANY, "in the order of arrival, whoever fits"),
    TracePolicy("backfill", Order.BACKFILL, "EASY: the first in line has a reservation"),
    TracePolicy("conservative", Order.CONSERVATIVE, "every waiting job has a reservation"),
    TracePolicy("sjf", Order.SHORTEST, "shortest estimate first, nobody is stopped"),
    TracePolicy("srtf", Order.SHORTEST, "least time left first, longer ones are stopped",
           preempts=True),
    TracePolicy("las", Order.LEAST_ATTAINED, "least device time so far first, others are stopped",
           preempts=True, round_s=ROUND_S, min_run_s=ROUND_S),
    TracePolicy("fair", Order.BACKFILL, "EASY in a queue for each tenant", by_tenant=True),
    TracePolicy("default", Order.LEAST_ATTAINED,
           "least device time so far first, an hour at a time",
           preempts=True, round_s=QUANTUM_S, min_run_s=QUANTUM_S),
)  # fmt: skip

POLICIES: Final[dict[str, TracePolicy]] = {policy.name: policy for policy in _ALL}


def policies_of(text: str) -> list[TracePolicy]:
    """The policies of "fifo,srtf", or of "all"; BadRequest names those there are."""
    names = list(POLICIES) if text == "all" else [word.strip() for word in text.split(",")]
    for name in names:
        if name not in POLICIES:
            raise BadRequest(f"{name!r} is no policy: {', '.join(POLICIES)}, all")
    return [POLICIES[name] for name in dict.fromkeys(names)]
