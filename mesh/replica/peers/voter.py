# SPDX-License-Identifier: Apache-2.0
"""One replica's vote: the pledge that lets one scheduler lead, and no other, for a short time.

Without I/O; `now_ns` is CLOCK_BOOTTIME. Owns three rules: a voter pledges to another scheduler only
after its last pledge ran out or its holder has resigned, never for an older term than it promised,
and not at all for one pledge after its start, since it has forgotten to whom it pledged; then to
itself alone if its disk says that its last vote was its own.
"""

from __future__ import annotations

from stoker.mesh.wire.peer_messages import NotPledged, Pledge

PLEDGE_NS = 2_000_000_000
"""The length of a pledge. The candidate counts it from its own request, and the voter from its
answer, which is later."""
DRIFT_NS = PLEDGE_NS // 500
"""The voter waits this much longer, so that clocks that drift apart by 1,000 ppm end a candidate's
pledge before the voter's: CLOCK_BOOTTIME is corrected by 500 ppm at most."""


class Voter:
    """The vote of the replica `number`; `promised` is the newest term that it promised on disk."""

    def __init__(self, cluster: str, number: int, promised: int) -> None:
        self.promised = promised
        """The newest term: entries are acknowledged to no leader of an older one."""
        self._cluster = cluster
        self._number = number
        self._free_ns: int | None = None
        self._holder = self._term = 0
        """The candidate and the term of the last pledge."""
        self._kept_ns = 0
        """The end of the last pledge from which its holder has set this voter free."""

    def wait_ns(self, candidate: int, now_ns: int) -> int:
        """Return the time until this vote is free for a candidate; 0 if it is."""
        if self._free_ns is None:  # the first look of this process
            self._free_ns = now_ns + PLEDGE_NS + DRIFT_NS
            self._kept_ns = self._free_ns  # a holder may have set the process before this one free
        return 0 if candidate == self._holder else max(0, self._free_ns - now_ns)

    def voted_for_itself(self) -> None:
        """Know that the process before this one voted last for its own scheduler, or never."""
        self._holder = self._number

    def grant(
        self, candidate: int, term: int, stamp_ns: int, roster: bytes, now_ns: int
    ) -> Pledge | NotPledged:
        """Pledge to a candidate, or say why not."""
        wait_ns = self.wait_ns(candidate, now_ns)
        if term < self.promised or wait_ns:
            return NotPledged(self.promised, wait_ns)
        self.promised = self._term = term
        self._holder = candidate
        self._free_ns = now_ns + PLEDGE_NS + DRIFT_NS
        return Pledge(self._cluster, self._number, candidate, term, stamp_ns, roster)

    def free(self, candidate: int, term: int, now_ns: int) -> None:
        """Be free for others: this candidate has resigned and acts on no pledge of this term."""
        is_holder = term > 0 and (candidate, term) == (self._holder, self._term)
        if is_holder and self._free_ns is not None:
            self._kept_ns = max(self._kept_ns, self._free_ns)
            self._free_ns = min(self._free_ns, now_ns)

    def is_early(self, now_ns: int) -> bool:
        """True while a pledge from which this voter was set free would not have run out."""
        return now_ns < self._kept_ns

    def promise(self, term: int) -> None:
        """Follow a term whose leader was heard."""
        self.promised = max(self.promised, term)
