# SPDX-License-Identifier: Apache-2.0
"""The public messages about single devices: everything that is read of one, and who is near whom.

Names and units of fields are those of `agent/devices/fields.py`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.mesh.wire.schema_cluster import Int, Message, Part

HISTORIES_MAX = 8
"""Fields of one request whose history is asked for."""


class ReadingsRequest(Message, frozen=True):
    """`device.readings`: all fields of one device as last read, and the past minute of some."""

    node: str
    device: str
    history: tuple[str, ...] = ()
    """Names of fields, at most HISTORIES_MAX."""
    since_ns: Int = 0
    """Only points after that moment (CLOCK_REALTIME)."""


class TopologyRequest(Message, frozen=True):
    """`node.topology`."""

    node: str


class FieldView(Part, frozen=True, omit_defaults=True):
    """One field: a value, or why there is none in `absent`."""

    value: Any = None
    unit: str = ""
    t_ns: int | None = None
    """When it was read, CLOCK_REALTIME."""
    window_ns: int = 0
    """It is a mean over so long before; 0: a moment, a counter, or not known."""
    error: float | None = None
    """Half-width in `unit` within which the true value lies; null: not known."""
    note: str = ""
    absent: str = ""


class ReadingsView(Message, frozen=True):
    """One device at `t_ns`. `state` is ok, starting, hung, lost, refused, mismatch or missing."""

    node: str
    device: str
    t_ns: int
    state: str
    why: str = ""
    sim: bool = False
    """Its driver is simulated."""
    fields: dict[str, FieldView] = msgspec.field(default_factory=dict)
    history: dict[str, tuple[tuple[int, float], ...]] = msgspec.field(default_factory=dict)
    """Field -> (CLOCK_REALTIME ns, value), the oldest first."""


class TopologyView(Message, frozen=True):
    """Who is near whom; cells as in `nvidia-smi topo -m`. Devices are first, then network cards."""

    node: str
    names: tuple[str, ...]
    matrix: tuple[tuple[str, ...], ...]
    numa: tuple[int | None, ...]
    cpus: tuple[str, ...]
    devices: int
    """How many of the names are devices."""
    sim: tuple[str, ...] = ()
    """Those of them whose drivers are simulated."""
