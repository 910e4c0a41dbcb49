# SPDX-License-Identifier: Apache-2.0
"""The policies for replays of traces of jobs.

A policy is the settings of the core's queues, such as order and options; every decision stays in
the core.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stoker.native.errors import BadRequest
from stoker.scheduler.policies import Option, Order


class TracePolicy(NamedTuple):
    """One column of the result table."""

    name: str
    order: Order
    text: str
    preempts: bool = False
    by_tenant: bool = False
    """True for one queue a tenant, all with the same weight, instead of one queue for all."""
    round_s: int = 0
    """The period of decisions while jobs wait, besides those at every arrival and end."""
    min_run_s: int = 0
    """The time after each start in which a job is not preempted."""

    @property
    def options(self) -> int:
        return Option.PREEMPTIBLE | Option.PREEMPTOR if self.preempts else 0


ROUND_S: Final = 360
"""The length of a scheduling round, as in Gavel (OSDI'20); preempting sooner does not pay off."""
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
    TracePolicy("fair", Order.FAIR, "EASY, the tenant who holds least first, in one queue"),
    TracePolicy("fair-queues", Order.BACKFILL, "EASY in a queue for each tenant", by_tenant=True),
    TracePolicy("default", Order.LEAST_ATTAINED,
           "least device time so far first, an hour at a time",
           preempts=True, round_s=QUANTUM_S, min_run_s=QUANTUM_S),
)  # fmt: skip

POLICIES: Final[dict[str, TracePolicy]] = {policy.name: policy for policy in _ALL}


def policies_of(text: str) -> list[TracePolicy]:
    """Parse "fifo,srtf" or "all" into policies; BadRequest lists the valid names."""
    names = list(POLICIES) if text == "all" else [word.strip() for word in text.split(",")]
    for name in names:
        if name not in POLICIES:
            raise BadRequest(f"{name!r} is no policy: {', '.join(POLICIES)}, all")
    return [POLICIES[name] for name in dict.fromkeys(names)]
