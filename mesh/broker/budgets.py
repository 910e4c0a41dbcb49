# SPDX-License-Identifier: Apache-2.0
"""What one user may take of what all users share: `[budgets]` of config.toml, and their defaults.

The scheduler holds requests and jobs to them, the broker connections and subscriptions. Each is a
part of a global limit: with the defaults USERS_AT_LIMIT users may use all of theirs at once, and
nobody is refused because somebody else has filled a table.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import msgspec

from stoker.native.errors import BadRequest, Busy, Refused

USERS_AT_LIMIT = 16
"""So many users fit beside each other, each with all of what the defaults allow one."""
WAITERS_MAX = 4096
"""Held replies of all users."""
PROXIED_MAX = 4096
"""Requests of all users that nodes are answering."""
SPEC_BYTES_MAX = 128 << 20
"""Requests of all jobs that are not over, as the log has them."""
REPLY_BYTES_PER_S = 64 << 20
"""Replies to all users together; the broker holds what a client does not read for some seconds."""


class Budgets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Each is of one user."""

    pending_jobs: int = 4096
    """Jobs that are not over."""
    spec_bytes: int = 8 << 20
    """Bytes of their requests, as the log has them."""
    waiters: int = 256
    """`job.get` held back by `wait_s`."""
    proxied: int = 256
    """Requests that a node answers: output that is followed, input, traces."""
    queued: int = 512
    """Requests that wait for this user's turn."""
    queued_bytes: int = 8 << 20
    in_flight: int = 256
    """Submits, cancels and settings on their way into the log; further ones wait for a turn."""
    in_flight_bytes: int = 4 << 20
    requests_per_s: int = 2000
    """Past a second's worth of it requests wait."""
    refusals_per_s: int = 1000
    """Past a second's worth of it, what finds its queue full is dropped without an answer."""
    reply_bytes_per_s: int = 16 << 20
    """Past a second's worth of it requests wait."""
    connections: int = 256
    """To the broker."""
    subscriptions: int = 16
    """Of one connection. Each that a reply matches is sent a copy of it."""


def read(path: Path) -> Budgets:
    """The table of `config.toml`, or what holds without one; BadRequest names what is wrong."""
    try:
        table = tomllib.loads(path.read_text()).get("budgets", {})
        budgets = msgspec.convert(table, Budgets)
    except FileNotFoundError:
        return Budgets()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise BadRequest(f"{path}: {error}") from None
    for name in Budgets.__struct_fields__:
        if not 0 < getattr(budgets, name) < 1 << 40:
            value = getattr(budgets, name)
            raise BadRequest(f"{path}: budgets.{name} is {value}, from 1 to {1 << 40}")
    return budgets


def busy(user: str, budget: str, limit: int | str, what: str) -> Busy:
    """The refusal of what passes by itself. `limit`: a count, or a size with its unit."""
    return Busy(
        f"{user} has {limit} {what}, as many as one user may have (budget {budget})",
        hint="ask again when some are answered",
    )


def refused(user: str, budget: str, limit: int | str, what: str) -> Refused:
    """The refusal of what only the user can change."""
    return Refused(
        f"{user} would have more than {limit} {what}, the most that one user may have"
        f" (budget {budget})",
        hint="wait until jobs are over or cancel some; an administrator can raise it",
    )


class Seats:
    """A global table of `limit` places of which no user has more than `each`."""

    def __init__(self, budget: str, what: str, each: int, limit: int) -> None:
        self.budget, self.what = budget, what
        self.each, self.limit = each, limit
        self._taken: Counter[str] = Counter()
        self.count = 0

    def take(self, user: str) -> None:
        """One more of this user; Busy says which limit is in the way."""
        if self._taken[user] >= self.each:
            raise busy(user, self.budget, self.each, self.what)
        if self.count >= self.limit:
            self._tidy(user)
            raise Busy(f"all users together have {self.limit} {self.what}, which is the limit")
        self._taken[user] += 1
        self.count += 1

    def leave(self, user: str) -> None:
        """One fewer."""
        self._taken[user] -= 1
        self.count -= 1
        self._tidy(user)

    def _tidy(self, user: str) -> None:
        if not self._taken[user]:
            del self._taken[user]
