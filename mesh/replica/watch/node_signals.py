# SPDX-License-Identifier: Apache-2.0
"""The signals of nodes on their way to the core of this replica: samples of devices, loads, watts.

Without I/O. Invariants: the core has no figure of an observation that is older than STALE_NS, and
nothing here is part of the state or of an entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.watch.model_watts import ModelWatts
from stoker.native.errors import StokerError
from stoker.scheduler.hints import ModelPower, Sample
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import DeviceInfo, DeviceSample, Observation

STALE_NS: Final = 5_000_000_000
"""The age from which on an observation is not used for placements; nodes send one a second."""
SLOWED_NS: Final = 10_000_000_000
"""The time for which a device counts as slowed after it was: a card at its limit slows down and
recovers several times a minute, and a job placed between two of these would share them."""
SLOWED: Final = frozenset({"thermal", "hard thermal", "hardware slowdown", "power brake"})
"""Words of `throttle` that mean heat or a fault, rather than a card at its power limit."""


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
        self._watts = ModelWatts(watts)
        self._core = state.core

    def observe(self, node: str, seen: Observation, now_ns: int) -> None:
        """Give the core what a known node has observed."""
        self._renew()
        self._fed.pop(node, None)
        self._fed[node] = now_ns
        number, core = name_id(node), self._state.core
        core.observe(number, seen.id, seen.load_milli)
        devices = self._state.book.nodes[node].devices
        places = {device.id: index for index, device in enumerate(devices)}
        for one in seen.devices:
            index = places.get(one.id)
            if index is None:
                continue
            device = devices[index]
            self._tell(device.model, self._watts.saw(device.model, one))
            slowed = self._is_slowed((node, one.id), one, now_ns)
            core.observe_device(number, index, sample_of(seen.id, device, one, slowed=slowed))

    def hears(self, node: str) -> bool:
        """Return True if an observation of this node is not older than STALE_NS."""
        return node in self._fed

    def forget(self, node: str) -> None:
        """Forget a node that left for good, of which the core has dropped everything."""
        self._fed.pop(node, None)
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
        if SLOWED.intersection(seen.throttle or ()):
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

    def _tell(self, model: str, watts: ModelPower | None) -> None:
        if watts is None:
            return
        try:
            self._state.core.model_power(name_id(model), watts.idle_w, watts.full_w)
        except StokerError:
            self._outbox.count("model_watts_refused")


def sample_of(id: int, device: DeviceInfo, seen: DeviceSample, *, slowed: bool) -> Sample:
    """Return a device's sample as the core takes it."""
    total, free = device.memory_bytes, seen.memory_free_bytes
    return Sample(
        id,
        power_w=seen.power_w,
        temperature_c=seen.temperature_c,
        limit_c=seen.limit_c,
        busy=seen.busy_ratio,
        cap_w=seen.power_limit_w,
        clock=seen.clock_ratio,
        memory=None if not total or free is None else max(0.0, 1 - free / total),
        slowed=slowed,
        warned=bool(device.warning),
    )
