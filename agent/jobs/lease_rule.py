# SPDX-License-Identifier: Apache-2.0
"""The rule of what a node may do under its lease: start attempts, and let frozen jobs go on.

Pure. Owns two conditions: nothing starts without a valid lease, and frozen jobs go on only after
the desired state was read past the freeze, under a lease that has not ended since.
"""

from __future__ import annotations

from stoker.agent.jobs.lease_judge import Freeze


class LeaseRule:
    """The lease as the node's core knows it. Times are CLOCK_BOOTTIME ns."""

    def __init__(self) -> None:
        self._until_ns = 0
        self._read_ns = 0
        """When the newest desired state was requested; 0 if none was read since the lease lapsed,
        because an eviction may have been decided meanwhile."""
        self._freeze: Freeze | None = None
        self._lapsed_ns = 0
        """When a lease was last received after the one before had ended, or as the first."""

    def renewed(self, expiry_ns: int, freeze: Freeze | None, now_ns: int) -> None:
        """Note an answer that counts; `freeze` is the freeze that it found, or None."""
        if self._until_ns <= now_ns:
            self._read_ns, self._lapsed_ns = 0, now_ns
        self._until_ns, self._freeze = expiry_ns, freeze

    def read(self, requested_ns: int) -> None:
        """Note that the whole desired state was read, as it was requested at this time."""
        self._read_ns = requested_ns

    @property
    def must_read(self) -> bool:
        """True if the desired state has to be read before anything starts or goes on."""
        return not self._is_fresh(self._read_ns)

    def _is_fresh(self, requested_ns: int) -> bool:
        """Return True if a state requested then shows whether this node was given up meanwhile."""
        frozen_ns = self._freeze.since_ns if self._freeze is not None else 0
        return requested_ns > frozen_ns and requested_ns >= self._lapsed_ns

    def may_start(self, now_ns: int, requested_ns: int = 0) -> bool:
        """Return True if attempts may start now. Under a freeze they may once the desired state was
        read past it, for a start cannot run before the thaw that follows. Starts in an answer that
        was requested past the freeze may as well, although the answer is only a part of the state.
        """
        known = not self.must_read or self._is_fresh(requested_ns)
        return known and now_ns < self._until_ns

    def thaw(self, now_ns: int) -> tuple[int, int] | None:
        """Return the number of the freeze to undo and the end of the lease, or None."""
        if self._freeze is None or self.must_read or self._until_ns <= now_ns:
            return None
        return self._freeze.epoch, self._until_ns
