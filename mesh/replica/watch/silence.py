# SPDX-License-Identifier: Apache-2.0
"""The evidence that a node is gone: it requests no lease, and other nodes' pings go unanswered.

Pure. Owns the rule of two signals: silence on NATS alone gives nobody up, and any sign of life on
either path since then undoes the evidence. Where a single other node is heard, its pings count
only if its gossip holds the silent one as failed, too. Times are the leader's CLOCK_BOOTTIME ns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

SILENT_NS = 1_500_000_000
"""A node that has requested no lease for this long is silent; it requests one each second."""
PING_EVERY_NS = 1_000_000_000
EVIDENCE_NS = 5_000_000_000
"""A result of a ping counts for so long."""
PINGERS = 2
"""The number of other nodes whose pings must have gone unanswered, if so many are heard."""
PINGERS_ASKED = 3
MASS_LEAST = 3
MASS_SHARE = 5
"""If at least MASS_LEAST nodes and more than one in MASS_SHARE are silent, the cause may be what
they have in common, so that each is given MASS_WAIT_NS more time."""
MASS_WAIT_NS = 10_000_000_000


class PingEvidence(NamedTuple):
    """The nodes whose pings went unanswered, and whether gossip was needed to believe them."""

    pingers: tuple[str, ...]
    by_gossip: bool


class NodeSilence:
    """The signs of life of one node, and their absence, since it was last heard."""

    def __init__(self, heard_ns: int) -> None:
        self.heard_ns = heard_ns
        """The time at which its last new lease request came, or since which none has."""
        self.pinged_ns = 0
        self.rounds = 0
        self._silent: dict[str, _Unanswered] = {}
        """The last report of each other node that its ping went unanswered."""
        self._answered_ns = 0

    def heard(self, at_ns: int) -> None:
        """Note a new lease request; older evidence is void."""
        if at_ns > self.heard_ns:
            self.heard_ns = at_ns
            self._silent.clear()

    def pinged(self, pinger: str, *, answered: bool, failed: bool = False, now_ns: int) -> None:
        """Note a pinger's report: a reply or a refusal shows that the host lives.

        `failed` is true if the pinger's gossip holds the node as failed.
        """
        if answered:
            self._answered_ns = now_ns
            self._silent.clear()
        else:
            self._silent[pinger] = _Unanswered(now_ns, failed)

    def is_silent(self, now_ns: int) -> bool:
        """Return True if the node has requested no lease for a while."""
        return now_ns - self.heard_ns >= SILENT_NS

    def is_due(self, now_ns: int) -> bool:
        """Return True if the node should be pinged now, and note that it is."""
        if not self.is_silent(now_ns) or now_ns - self.pinged_ns < PING_EVERY_NS:
            return False
        self.pinged_ns = now_ns
        self.rounds += 1
        return True

    def evidence(self, now_ns: int, heard: int) -> PingEvidence | None:
        """Return whose pings went unanswered lately; None if that is not enough.

        `heard` is the number of other nodes that are heard. Two of them could contradict one that
        lies, so that gossip stands for the second one only where there is none.
        """
        since_ns = now_ns - EVIDENCE_NS
        if not self.is_silent(now_ns) or self._answered_ns > since_ns:
            return None
        found = {name: each for name, each in self._silent.items() if each.at_ns > since_ns}
        if len(found) >= PINGERS:
            return PingEvidence(tuple(sorted(found)), by_gossip=False)
        alone = heard < PINGERS and any(each.failed for each in found.values())
        return PingEvidence(tuple(found), by_gossip=True) if alone else None


class _Unanswered(NamedTuple):
    """A report that a ping went unanswered: when it came, and whether gossip says the same."""

    at_ns: int
    failed: bool


def is_mass(silent: int, nodes: int) -> bool:
    """Return True if so many nodes are silent that one cause is likely."""
    return silent >= MASS_LEAST and silent * MASS_SHARE > nodes


def others_heard(
    target: str, nodes: Collection[str], silences: Mapping[str, NodeSilence], now_ns: int
) -> list[str]:
    """Return the nodes besides `target` that are not silent."""
    return [name for name in nodes if name != target and not silences[name].is_silent(now_ns)]


def pingers(
    target: str, nodes: Sequence[str], silences: Mapping[str, NodeSilence], now_ns: int
) -> tuple[str, ...]:
    """Return the nodes that are to ping `target`: others that are heard, in turn."""
    heard = others_heard(target, nodes, silences, now_ns)
    first = silences[target].rounds % max(len(heard), 1)
    return tuple([*heard[first:], *heard[:first]][:PINGERS_ASKED])
