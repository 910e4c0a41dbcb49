# SPDX-License-Identifier: Apache-2.0
"""The signals of nodes on their way to the core of this replica: samples of devices, loads, watts.

Without I/O. Invariants: the core has no figure of an observation that is older than STALE_NS, and
nothing here is part of the state or of an entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.watch.model_watts import ModelWatts
from stoker.native.errors import StokerError
from stoker.scheduler.hints import ModelPower, Sample, pack_sample
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import DeviceInfo, DeviceSample, NodeReport, Observation
from stoker.scheduler.wire_names import SAMPLE_SLOWED, SAMPLE_WARNED

STALE_NS: Final = 5_000_000_000
"""The age from which on an observation is not used for placements; nodes send one a second."""
SLOWED_NS: Final = 10_000_000_000
"""The time for which a device counts as slowed after it was: a card at its limit slows down and
recovers several times a minute, and a job placed between two of these would share them."""
SLOWED: Final = frozenset({"thermal", "hard thermal", "hardware slowdown", "power brake"})
"""Words of `throttle` that mean heat or a fault, rather than a card at its power limit."""


class _KnownNode(NamedTuple):
    """A node as its report says: its number in the core, and each device's index by its id."""

    number: int
    report: NodeReport
    places: Mapping[str, tuple[int, DeviceInfo]]


class ReplicaSignals:
    """The signals of all nodes at one replica. `watts` are those of a file, by model."""

    def __init__(
        self, state: ReplicaState, outbox: Outbox, watts: Mapping[str, ModelPower] | None = None
    ) -> None:
        self._state = state
        self._outbox = outbox
        self._fed: dict[str, int] = {}
        """The arrival of the newest observation of each node, the oldest first (CLOCK_BOOTTIME)."""
        self._slowed: dict[tuple[str, str], int] = {}
        """The end of the time for which a device counts as slowed, by node and device."""
        self._nodes: dict[str, _KnownNode] = {}
        self._watts = ModelWatts(watts)
        self._core = state.core

    def observe(self, node: str, seen: Observation, now_ns: int) -> None:
        """Give the core what a known node has observed."""
        self._renew()
        self._fed.pop(node, None)
        self._fed[node] = now_ns
        core, watts, id = self._state.core, self._watts, seen.id
        number, _, places = self._known(node)
        core.observe(number, id, seen.load_milli)
        for one in seen.devices:
            place = places.get(one.id)
            if place is None:
                continue
            index, device = place
            if (model := watts.saw(device.model, one)) is not None:
                self._tell(device.model, model)
            slowed = bool(one.throttle or self._slowed) and self._is_slowed(
                (node, one.id), one, now_ns
            )
            core.observe_packed(number, index, sample_of(id, device, one, slowed=slowed))

    def _known(self, node: str) -> _KnownNode:
        """Return a node's number and the places of its devices, made anew with each report."""
        report = self._state.book.nodes[node]
        known = self._nodes.get(node)
        if known is None or known.report is not report:
            places = {device.id: (at, device) for at, device in enumerate(report.devices)}
            known = self._nodes[node] = _KnownNode(name_id(node), report, places)
        return known

    def hears(self, node: str) -> bool:
        """Return True if an observation of this node is not older than STALE_NS."""
        return node in self._fed

    def forget(self, node: str) -> None:
        """Forget a node that left for good, of which the core has dropped everything."""
        self._fed.pop(node, None)
        self._nodes.pop(node, None)
        self._slowed = {key: end for key, end in self._slowed.items() if key[0] != node}

    def expire(self, now_ns: int) -> int:
        """Take from the core what has become too old; return when the next may be."""
        while self._fed:
            node, heard_ns = next(iter(self._fed.items()))
            if now_ns - heard_ns < STALE_NS:
                return heard_ns + STALE_NS
            del self._fed[node]
            self._outbox.count("observation_stale")
            self._state.core.observe(name_id(node), 0, 0)
            report = self._state.book.nodes.get(node)
            for index, device in enumerate(report.devices if report is not None else ()):
                self._state.core.observe_device(name_id(node), index, Sample(0, stale=True))
                self._slowed.pop((node, device.id), None)
        return now_ns + STALE_NS

    def _is_slowed(self, key: tuple[str, str], seen: DeviceSample, now_ns: int) -> bool:
        if not SLOWED.isdisjoint(seen.throttle or ()):
            self._slowed[key] = now_ns + SLOWED_NS
        if self._slowed.get(key, now_ns) > now_ns:
            return True
        self._slowed.pop(key, None)
        return False

    def _renew(self) -> None:
        """Tell a core that was made anew, as by other limits or a snapshot, the watts again."""
        if self._core is self._state.core and not self._watts.unsaid:
            return
        self._core = self._state.core
        for model, watts in self._watts.all():
            self._tell(model, watts)

    def _tell(self, model: str, watts: ModelPower) -> None:
        try:
            self._state.core.model_power(name_id(model), watts.idle_w, watts.full_w)
        except StokerError:
            self._outbox.count("model_watts_refused")


def sample_of(id: int, device: DeviceInfo, seen: DeviceSample, *, slowed: bool) -> bytes:
    """Return a device's sample as the core takes it."""
    total, free = device.memory_bytes, seen.memory_free_bytes
    figures = (
        seen.power_w,
        seen.temperature_c,
        seen.limit_c,
        seen.busy_ratio,
        seen.power_limit_w,
        seen.clock_ratio,
        None if not total or free is None else max(0.0, 1 - free / total),
    )
    flags = (SAMPLE_SLOWED if slowed else 0) | (SAMPLE_WARNED if device.warning else 0)
    return pack_sample(id, figures, flags)
