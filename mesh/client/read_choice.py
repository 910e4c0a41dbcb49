# SPDX-License-Identifier: Apache-2.0
"""The scheduler at which a client reads, and whether it may be shown an older state.

Owns which requests that choice applies to: those that every scheduler can answer by itself.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stoker.mesh.wire import schema, subjects


class ReadChoice(NamedTuple):
    """The scheduler at which a client reads; by default the leader answers everything."""

    at: str = ""
    """A scheduler as `stoker cluster` shows it, `any` for one that the broker chooses, or empty."""
    stale: bool = False
    """True to be answered at once with what that scheduler has."""

    def applied(self, noun: str, verb: str, request: schema.Message) -> tuple[str, schema.Message]:
        """Return the subject and the request to send for a request of the user."""
        if self.at and (noun, verb) == subjects.AUDIT_READ:
            return subjects.read(subjects.check_at(self.at), noun, verb), request
        traced = isinstance(request, schema.GetRequest) and request.trace
        if not (self.at or self.stale) or traced or (noun, verb) not in subjects.READS:
            return subjects.request(noun, verb), request
        subject = subjects.read(subjects.check_at(self.at or subjects.ANY), noun, verb)
        return subject, msgspec.structs.replace(request, stale=self.stale)


AT_THE_LEADER = ReadChoice()
