# SPDX-License-Identifier: Apache-2.0
"""The public messages about single devices: all readings of one, and the topology of a node.

Names and units of fields are those of `agent/devices/fields.py`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.mesh.wire.schema_cluster import Int, Message, Part, ReplyMessage

HISTORIES_MAX = 8
"""The most fields whose history one request may contain."""


class ReadingsRequest(Message, frozen=True):
    """`device.readings`: the last readings of one device, and the past minute of some fields."""

    node: str
    device: str
    history: tuple[str, ...] = ()
    """The names of those fields, at most HISTORIES_MAX."""
    since_ns: Int = 0
    """Only points after this moment (CLOCK_REALTIME) are returned."""


class TopologyRequest(Message, frozen=True):
    """`node.topology`: the links between the devices of a node."""

    node: str


class FieldView(Part, frozen=True, omit_defaults=True):
    """One field: a value, or the reason in `absent` why there is none."""

    value: Any = None
    unit: str = ""
    t_ns: int | None = None
    """The moment of the reading (CLOCK_REALTIME)."""
    window_ns: int = 0
    """The time over which the value is a mean; 0 for a moment, a counter, or if not known."""
    error: float | None = None
    """The half-width in `unit` within which the true value lies; null if not known."""
    note: str = ""
    absent: str = ""


class ReadingsView(ReplyMessage, frozen=True):
    """One device at `t_ns`. `state` is ok, starting, hung, lost, refused, mismatch or missing."""

    node: str
    device: str
    t_ns: int
    state: str
    why: str = ""
    sim: bool = False
    """True if its driver is simulated."""
    fields: dict[str, FieldView] = msgspec.field(default_factory=dict)
    history: dict[str, tuple[tuple[int, float], ...]] = msgspec.field(default_factory=dict)
    """The points (CLOCK_REALTIME ns, value) of each field, the oldest first."""


class TopologyView(ReplyMessage, frozen=True):
    """The topology of a node: devices, then network cards; cells are as in `nvidia-smi topo`."""

    node: str
    names: tuple[str, ...]
    matrix: tuple[tuple[str, ...], ...]
    numa: tuple[int | None, ...]
    cpus: tuple[str, ...]
    devices: int
    """The number of names that are devices."""
    sim: tuple[str, ...] = ()
    """The devices whose drivers are simulated."""
