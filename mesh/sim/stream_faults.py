# SPDX-License-Identifier: Apache-2.0
"""The weaknesses of a simulated JetStream, each with a name and a probability.

Each was measured or reported of nats-server: appends that land late, acknowledged entries that are
lost, numbers without an entry, deposed leaders that go on answering, storms of 503, long elections.
"""

from __future__ import annotations

import random
from typing import NamedTuple

ON = 0.7
"""The probability that a seed has a weakness at all."""


class StreamFaults(NamedTuple):
    """Probabilities for each append or reading, and in the second part for each election."""

    ack_lost: float = 0.0
    """The entry is stored and the client is told nothing."""
    append_lost: float = 0.0
    """Nothing is stored and the client is told nothing."""
    late: float = 0.0
    """The client is told nothing, and the entry is stored up to 20 s later, if it still fits."""
    hole: float = 0.0
    """A number is counted and cannot be read."""
    twice: float = 0.0
    """The entry is stored twice."""
    forced: float = 0.0
    """The check of the expected tail fails to refuse a late append."""
    read_failed: float = 0.0
    """A reading ends in the middle."""
    storm: float = 0.0
    """A request is answered 503 although the stream has a leader."""
    lost_tail: float = 0.0
    """An election loses up to three acknowledged entries."""
    deposed: float = 0.0
    """The leader before an election goes on acknowledging and answering from its own copy."""
    stale: float = 0.0
    """The copy of a server stands still for some seconds."""
    deleted: float = 0.0
    """An election ends with an empty stream."""


SINGLE = frozenset({"ack_lost", "append_lost", "hole", "read_failed", "storm", "late"})
"""Weaknesses of a stream on one server; the others need a second one."""
MOST = StreamFaults(
    ack_lost=0.04,
    append_lost=0.04,
    late=0.05,
    hole=0.02,
    twice=0.03,
    forced=0.05,
    read_failed=0.08,
    storm=0.05,
    lost_tail=1.0,
    deposed=1.0,
    stale=0.8,
    deleted=0.4,
)


CALM = 0.2
"""The part of the weaknesses of single calls that shows between spells of faults. Each costs a
leader some seconds, so that a log which always has them all takes few entries, and shows little."""
OF_CALLS = ("ack_lost", "append_lost", "late", "hole", "read_failed", "storm")


def calmed(faults: StreamFaults) -> StreamFaults:
    """Return these weaknesses as they show between spells of faults."""
    return faults._replace(**{name: CALM * getattr(faults, name) for name in OF_CALLS})


def drawn(chance: random.Random, servers: int) -> StreamFaults:
    """Return the weaknesses of one seed, for a stream on so many servers."""
    values = []
    for name, most in zip(StreamFaults._fields, MOST, strict=True):
        on = chance.random() < ON and (servers > 1 or name in SINGLE)
        values.append(most * chance.random() if on else 0.0)
    return StreamFaults(*values)
