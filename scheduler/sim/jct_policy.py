# SPDX-License-Identifier: Apache-2.0
"""The policies that traces of jobs are replayed under: settings of the core's queues, no more.

Relied on by the job simulator and its command. A policy here decides nothing; it names the order
and options that the core's own code goes by.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stoker.native.errors import BadRequest
from stoker.scheduler.policies import Option, Order


class Policy(NamedTuple):
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


_ALL: Final = (
    Policy("fifo", Order.FIFO, "in the order of arrival; the first that does not fit blocks"),
    Policy("sjf", Order.SHORTEST, "shortest estimate first, nobody is stopped"),
)

POLICIES: Final[dict[str, Policy]] = {policy.name: policy for policy in _ALL}


def policies_of(text: str) -> list[Policy]:
    """The policies of "fifo,srtf", or of "all"; BadRequest names those there are."""
    names = list(POLICIES) if text == "all" else [word.strip() for word in text.split(",")]
    for name in names:
        if name not in POLICIES:
            raise BadRequest(f"{name!r} is no policy: {', '.join(POLICIES)}, all")
    return [POLICIES[name] for name in dict.fromkeys(names)]
