# SPDX-License-Identifier: Apache-2.0
"""The public views inside an explanation: reasons, what a placement read, the expected start."""

from __future__ import annotations

import msgspec

from stoker.mesh.wire.schema_cluster import Part


class ReasonView(Part, frozen=True):
    """One reason, as data and as a sentence."""

    code: str
    text: str
    node: str = ""
    data: dict[str, int] = msgspec.field(default_factory=dict)
    remedies: tuple[str, ...] = ()
    """Remedies by name: `scheduler.remedies.Remedy`."""


class SignalsView(Part, frozen=True):
    """The values that a placement read of one node, or of the device there that decided."""

    node: str
    device: str = ""
    """The id of the device; empty where nodes were compared."""
    sim: bool = False
    """True for a simulated device."""
    observation: int | None = None
    """The observation that had the values; null if there was none."""
    values: dict[str, float] = msgspec.field(default_factory=dict)
    """The values that the placement reads, by name, as they were at that time."""
    marks: tuple[str, ...] = ()
    """`slowed`: heat or a fault held its clock down; `warned`: its health had a warning."""
    compared: str = ""
    """The figure that was compared, in words."""
    absent: str = ""
    """The reason why the placement did not know what it needs; empty if it did."""


class EvidenceView(Part, frozen=True):
    """The values that a placement read when it chose."""

    placement: str
    chosen: SignalsView | None = None
    next_best: SignalsView | None = None
    """The next best choice; null if there was no other."""
    flip: str = ""
    """The change of a value that would have changed the choice, in one sentence."""
    absent: str = ""
    """The reason why there are no values; empty if there are."""


class ExpectedStart(Part, frozen=True):
    """The moment at which a pending job is expected to start, or the reason why nobody can tell."""

    t_ns: int | None = None
    """The moment in CLOCK_REALTIME ns; null with `absent`."""
    latest: bool = False
    """True if it may start sooner: `t_ns` is the latest moment."""
    basis: str = ""
    """The facts that it rests on."""
    absent: str = ""
    """The reason why there is no moment."""
