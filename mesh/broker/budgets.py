# SPDX-License-Identifier: Apache-2.0
"""The budgets of one user: `[budgets]` in config.toml, and their defaults.

The scheduler limits requests and jobs by them, the broker connections and subscriptions. Each is a
part of a global limit. Guarantees that, with the defaults, USERS_AT_LIMIT users may use up their
budgets at once and no other user is refused because of them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from stoker.native import config_table
from stoker.native.errors import BadRequest, Busy, Refused

USERS_AT_LIMIT = 16
"""The number of users who can use up their default budgets at the same time."""
WAITERS_MAX = 4096
"""The most held replies of all users together."""
PROXIED_MAX = 4096
"""The most requests of all users together that nodes are answering."""
READS_MAX = 4096
"""The most reads of all users together that wait at a follower for the leader's word."""
SPEC_BYTES_MAX = 128 << 20
"""The most bytes of requests of all jobs that are not over, as encoded in the log."""
REPLY_BYTES_PER_S = 64 << 20
"""The most bytes of replies to all users in a second; the broker keeps unread replies for some
seconds."""


class Budgets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one user."""

    pending_jobs: int = 10_240
    """Jobs that are not over."""
    array_jobs: int = 262_144
    """Jobs of large arrays that are not over. Those that wait in one for their turn count here, and
    not as pending jobs."""
    spec_bytes: int = 8 << 20
    """Bytes of the requests of those jobs, as encoded in the log."""
    waiters: int = 256
    """Requests `job.get` that are held back by `wait_s`; counted apart, as many reads may wait at a
    follower."""
    proxied: int = 256
    """Requests that a node answers: output that is followed, input, traces."""
    queued: int = 512
    """Requests that wait in this user's queue."""
    queued_bytes: int = 8 << 20
    """Bytes of those requests."""
    in_flight: int = 256
    """Submits, cancels and settings on their way into the log; more of them wait in the queue."""
    in_flight_bytes: int = 4 << 20
    """Bytes of those changes."""
    requests_per_s: int = 2000
    """Requests above this rate wait, after a burst of one second's worth."""
    refusals_per_s: int = 1000
    """Requests that find their queue full are dropped without an answer above this rate."""
    reply_bytes_per_s: int = 16 << 20
    """Requests wait while their replies exceed this rate, after a burst of one second's worth."""
    connections: int = 256
    """Connections to the broker."""
    subscriptions: int = 16
    """Subscriptions of one connection; each that matches a reply gets a copy of it."""


def read(path: Path) -> Budgets:
    """Return the budgets of a `config.toml`, or the defaults; BadRequest says what is wrong."""
    return config_table.read(path, "budgets", Budgets, check)


def check(budgets: Budgets) -> None:
    """Raise BadRequest for a budget that nobody can have."""
    for name in Budgets.__struct_fields__:
        if not 0 < getattr(budgets, name) < 1 << 40:
            value = getattr(budgets, name)
            raise BadRequest(f"budgets.{name} is {value}, from 1 to {1 << 40}")


def busy(user: str, budget: str, limit: int | str, what: str) -> Busy:
    """Return the refusal at a limit that clears by itself; `limit` is a count or a size."""
    return Busy(
        f"{user} has {limit} {what}, as many as one user may have (budget {budget})",
        hint="try again when some are answered",
    )


def refused(user: str, budget: str, limit: int | str, what: str) -> Refused:
    """Return the refusal at a limit that only the user can clear; `limit` is a count or a size."""
    return Refused(
        f"{user} would have more than {limit} {what}, the most that one user may have"
        f" (budget {budget})",
        hint="wait until jobs are over or cancel some; an administrator can raise it",
    )


class Seats:
    """A table of `limit` seats for all users, of which no user takes more than `each`."""

    def __init__(self, budget: str, what: str, each: int, limit: int) -> None:
        self.budget, self.what = budget, what
        self.each, self.limit = each, limit
        self._taken: Counter[str] = Counter()
        self.count = 0

    def take(self, user: str) -> None:
        """Take a seat for this user; Busy says which limit is reached."""
        if self._taken[user] >= self.each:
            raise busy(user, self.budget, self.each, self.what)
        if self.count >= self.limit:
            self._tidy(user)
            raise Busy(f"all users together have {self.limit} {self.what}, which is the limit")
        self._taken[user] += 1
        self.count += 1

    def leave(self, user: str) -> None:
        """Give a seat of this user back."""
        self._taken[user] -= 1
        self.count -= 1
        self._tidy(user)

    def _tidy(self, user: str) -> None:
        if not self._taken[user]:
            del self._taken[user]
