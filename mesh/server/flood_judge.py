# SPDX-License-Identifier: Apache-2.0
"""The judge of nodes' connections to one broker: who sends more than a node ever does, and for how
long its key is kept out then.

Pure; the figures are the broker's, and time comes in as an argument. Owns that a key is judged by
all that its connections send, on whatever subjects, and that one which is not a node's never is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from stoker.scheduler.figures import size as size_of

NS = 1_000_000_000
MESSAGES_PER_S = 10_000
"""The messages of one node in a second, after a burst of a second's worth. An agent sends some
tens; while many outcomes, records or answers for users go out, some thousands."""
BYTES_PER_S = 64 << 20
"""Their bytes; what a node answers to all users together is bounded by as many."""
SUBSCRIPTIONS_MAX = 256
"""The most subscriptions of one connection of a node; an agent has a dozen."""
CONNECTIONS_MAX = 32
"""The most connections of a node's key to one broker; an agent has three."""
SENT_PER_S = 50_000
"""The messages that a broker sends in a second before its connections are looked at."""
KEEP_OUT_NS = (3 * NS, 48 * NS)
"""The time for which a key is kept out after the first cut, and at the most; it doubles with each
cut that follows within FORGET_NS. The first is shorter than a lease, so it freezes no job."""
SHUT_NS = (30 * NS, 480 * NS)
"""That of a key that the broker is told not to take at all. Whoever waits for an answer then may
have to ask again, so it is not done often."""
KNOCKS_MAX = 20
"""The new connections of a key that are ended one by one, while each sends for some milliseconds.
One that comes more often is shut out."""
FORGET_NS = 600 * NS
KEYS_MAX = 4096
"""The most keys that are told apart; only those of nodes are, of which a cluster has 1,024."""


class BrokerTotals(NamedTuple):
    """The messages and bytes that a broker took from its clients and the messages that it sent them
    since it started, and its connections and subscriptions now."""

    messages: int = 0
    bytes: int = 0
    sent: int = 0
    connections: int = 0
    subscriptions: int = 0


class ConnectionFigures(NamedTuple):
    """One connection, by the broker's number, with all that came on it so far."""

    number: int
    key: str
    messages: int
    bytes: int
    subscriptions: int


class Cut(NamedTuple):
    """A connection that is to be ended, and why."""

    number: int
    key: str
    why: str


class Suspicion:
    """The judgement whether a broker's totals are a reason to look at each connection, which costs
    it more."""

    def __init__(self) -> None:
        self._last: tuple[BrokerTotals, int] | None = None
        self._looked = BrokerTotals()

    def arises(self, now: BrokerTotals, now_ns: int) -> bool:
        """Return True if some node may send too much, hear too often or connect too often."""
        last, self._last = self._last, (now, now_ns)
        if last is None:
            return True
        grown = BrokerTotals(*(after - before for after, before in zip(now, last[0], strict=True)))
        passed_ns = max(now_ns - last[1], 1)
        rates = ((grown.messages, MESSAGES_PER_S / 2), (grown.bytes, BYTES_PER_S / 2),
                 (grown.sent, SENT_PER_S))  # fmt: skip
        return (
            any(amount * NS > per_s * passed_ns for amount, per_s in rates)
            or now.connections > self._looked.connections + CONNECTIONS_MAX / 2
            or now.subscriptions > self._looked.subscriptions + SUBSCRIPTIONS_MAX / 2
        )

    def looked(self) -> None:
        """Note that the connections were looked at just now."""
        if self._last is not None:
            self._looked = self._last[0]


class _Spent:
    """The messages and bytes of one key beyond its rate."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages = self.bytes = 0.0

    def add(self, messages: int, bytes_: int, passed_s: float) -> bool:
        """Add what was sent in so many seconds; return True if that is beyond the burst."""
        self.messages = max(self.messages + messages - MESSAGES_PER_S * passed_s, 0)
        self.bytes = max(self.bytes + bytes_ - BYTES_PER_S * passed_s, 0)
        return self.messages > MESSAGES_PER_S or self.bytes > BYTES_PER_S


class FloodJudge:
    """The judge of one broker's connections, for as long as that broker runs."""

    def __init__(self) -> None:
        self._last: dict[int, ConnectionFigures] = {}
        self._last_ns = 0
        self._spent: dict[str, _Spent] = {}

    def judge(
        self, found: Iterable[ConnectionFigures], nodes: Mapping[str, str], now_ns: int
    ) -> list[Cut]:
        """Return the connections to end; `nodes` has the node of each key that may be judged."""
        mine: dict[str, list[ConnectionFigures]] = {}
        for each in found:
            if each.key in nodes:
                mine.setdefault(each.key, []).append(each)
        passed_ns = now_ns - self._last_ns
        cuts = [cut for key, own in mine.items() for cut in self._of_key(key, own, passed_ns)]
        self._last = {each.number: each for own in mine.values() for each in own}
        self._last_ns = now_ns
        self._spent = {key: spent for key, spent in self._spent.items() if key in mine}
        return cuts

    def _of_key(self, key: str, own: list[ConnectionFigures], passed_ns: int) -> Iterator[Cut]:
        newest_first = sorted(own, key=lambda each: -each.number)
        for each in newest_first[: max(len(own) - CONNECTIONS_MAX, 0)]:
            yield Cut(each.number, key, f"{len(own)} connections")
        for each in own:
            if each.subscriptions > SUBSCRIPTIONS_MAX:
                yield Cut(each.number, key, f"{each.subscriptions:,} subscriptions")
        if self._last_ns:
            yield from self._too_much(key, own, passed_ns)

    def _too_much(self, key: str, own: list[ConnectionFigures], passed_ns: int) -> Iterator[Cut]:
        """Yield the connections of a key that sent the most, until the others' are not too much."""
        grown = [(self._grown(each), each.number) for each in own]
        messages, bytes_ = (sum(amounts[kind] for amounts, _ in grown) for kind in (0, 1))
        passed_s = passed_ns / NS
        if not self._spent.setdefault(key, _Spent()).add(messages, bytes_, passed_s):
            return
        why = f"{messages:,} messages of {size_of(bytes_)} in {passed_s:.1f} s"
        for (many, much), number in sorted(grown, reverse=True):
            if messages <= MESSAGES_PER_S * passed_s and bytes_ <= BYTES_PER_S * passed_s:
                break
            yield Cut(number, key, why)
            messages, bytes_ = messages - many, bytes_ - much
        self._spent[key] = _Spent()

    def _grown(self, each: ConnectionFigures) -> tuple[int, int]:
        last = self._last.get(each.number)
        if last is None:
            return each.messages, each.bytes
        return each.messages - last.messages, each.bytes - last.bytes


class _Out:
    """One key that is kept out, or was."""

    __slots__ = ("is_shut", "knocks", "lasts_ns", "until_ns")

    def __init__(self, now_ns: int, lasts_ns: int, is_shut: bool) -> None:
        self.until_ns, self.lasts_ns, self.is_shut = now_ns + lasts_ns, lasts_ns, is_shut
        self.knocks = 0


class KeptOut:
    """The keys of which new connections are ended for a while. What was connected before stays,
    such as the agent of a node whose key was stolen, unless the key is shut out."""

    def __init__(self) -> None:
        self._out: dict[str, _Out] = {}

    def keep(self, key: str, now_ns: int) -> None:
        """Keep a key out from now on, of which a connection was cut."""
        was = self._out.get(key)
        if was is not None and was.until_ns > now_ns:
            return
        again = was if was is not None and now_ns - was.until_ns < FORGET_NS else None
        is_shut = again is not None and again.is_shut
        lasts_ns, most_ns = SHUT_NS if is_shut else KEEP_OUT_NS
        if again is not None:
            lasts_ns = min(2 * again.lasts_ns, most_ns)
        if was is None and len(self._out) >= KEYS_MAX:
            self._out.clear()
        self._out[key] = _Out(now_ns, lasts_ns, is_shut)

    def refuses(self, key: str, now_ns: int) -> bool:
        """Return True if a new connection of this key, which this is one of, is to be ended."""
        of = self._out.get(key)
        if of is None or of.until_ns <= now_ns:
            return False
        of.knocks += 1
        if of.knocks > KNOCKS_MAX and not of.is_shut:
            self._out[key] = _Out(now_ns, SHUT_NS[0], is_shut=True)
        return True

    def shut(self, now_ns: int) -> frozenset[str]:
        """Return the keys of which the broker is to take no connection at all now."""
        return frozenset(
            key for key, of in self._out.items() if of.is_shut and of.until_ns > now_ns
        )

    def lasts_ns(self, key: str) -> int:
        """Return for how long a key was kept out last."""
        of = self._out.get(key)
        return of.lasts_ns if of is not None else 0
