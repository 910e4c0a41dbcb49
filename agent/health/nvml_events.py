# SPDX-License-Identifier: Apache-2.0
"""The thread that waits for Xids in NVML's event sets.

Events that arrive within TOGETHER_NS are handed over as one batch. Invariant: a card that cannot be
registered does not hold up the events of the others, and it is tried again; so is a driver that was
unloaded.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from stoker.agent.devices.card import Card
from stoker.agent.devices.deadline import within
from stoker.agent.devices.nvidia.card import NvidiaCard
from stoker.agent.devices.nvidia.nvml import call
from stoker.agent.devices.readings import Absent
from stoker.agent.health.signals import Kind

DOUBLE_BIT, XID = 0x2, 0x8
WANTED = DOUBLE_BIT | XID
"""Event types of nvml.h; single bit errors and retired pages are counters, read once a second."""
WAIT_MS = 2000
"""The longest wait for an event, which ends it at once; also how late a thread that nobody waits
for notices that it must end."""
TOGETHER_NS = 5_000_000
"""The time after the first event of a batch in which further events join it."""
REGISTER_S = 2.0
AGAIN_S = 1.0
LOST_S = 0.03
"""The pause after a wait that failed because a card is lost: such waits return at once, and would
otherwise keep a CPU busy."""
NO_CARD, NOT_YET = "no NVIDIA card is there", "no card is registered yet"
TIMEOUT, LOST = 10, 15
"""Values of nvmlReturn_t: NVML_ERROR_TIMEOUT and NVML_ERROR_GPU_IS_LOST."""


class NvmlEvent(NamedTuple):
    """`times` equal events of one card in one batch."""

    device: str
    kind: Kind
    number: int
    times: int


class NvmlEvents:
    """The thread's owner: `set` names the cards, and the thread calls `take` with each batch."""

    def __init__(self, take: Callable[[list[NvmlEvent]], None]) -> None:
        self.counters: Counter[str] = Counter()
        self.why = NO_CARD
        """The reason why no event can arrive; empty if events can."""
        self._take = take
        self._cards: tuple[NvidiaCard, ...] = ()
        self._stop = threading.Event()

    def set(self, cards: Iterable[Card]) -> None:
        """Wait for the events of these cards from now on.

        The thread is replaced only if the cards differ from those before: an event between the end
        of one event set and the beginning of the next would be lost.
        """
        wanted = tuple(card for card in cards if isinstance(card, NvidiaCard))
        before, self._cards = {card.id for card in self._cards}, wanted
        if {card.id for card in wanted} == before:
            return
        self._stop.set()
        self._stop = threading.Event()
        self.why = NOT_YET if wanted else NO_CARD
        if wanted:
            run = partial(self._run, self._stop)
            threading.Thread(target=run, name="nvml events", daemon=True).start()

    def close(self) -> None:
        """Tell the thread to end, without waiting for it: it may hang in the driver."""
        self._stop.set()
        self._cards = ()

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            cards = self._cards
            if not cards:
                return
            nvml = cards[0].binding()[0]
            made = call(nvml, "nvmlEventSetCreate")
            places = {} if isinstance(made, Absent) else self._register(nvml, made, cards)
            absent = made.why if isinstance(made, Absent) else "it takes no card of this node"
            self.why = "" if places else absent
            if places:
                self._listen(nvml, made, places, cards, stop)
            if not isinstance(made, Absent):
                call(nvml, "nvmlEventSetFree", made)
            self.counters["nvml_events_begun"] += 1
            stop.wait(AGAIN_S)

    @staticmethod
    def _register(nvml: Any, made: Any, cards: tuple[NvidiaCard, ...]) -> dict[int, str]:
        """Register the cards and return handle address -> card id of those that succeeded."""
        handles = {card.id: card.binding()[1] for card in cards}

        def register(handle: Any) -> Any:
            supported = call(nvml, "nvmlDeviceGetSupportedEventTypes", handle)
            types = WANTED if isinstance(supported, Absent) else WANTED & int(supported)
            return call(nvml, "nvmlDeviceRegisterEvents", handle, types, made)

        calls = [(id, partial(register, handle)) for id, handle in handles.items()]
        return {
            _address(handles[task.name]): task.name
            for task in within(calls, REGISTER_S)
            if task.over.is_set() and task.error is None and not isinstance(task.result, Absent)
        }

    def _listen(
        self,
        nvml: Any,
        made: Any,
        places: dict[int, str],
        cards: tuple[NvidiaCard, ...],
        stop: threading.Event,
    ) -> None:
        """Pass events on until the driver no longer knows the event set.

        Meanwhile the cards that could not be registered are tried again every AGAIN_S.
        """
        tried_s = time.monotonic()
        while not stop.is_set():
            left = tuple(card for card in cards if card.id not in places.values())
            if left and time.monotonic() - tried_s > AGAIN_S:
                tried_s = time.monotonic()
                places |= self._register(nvml, made, left)
            found: Counter[tuple[str, Kind, int]] = Counter()
            code = self._wait(nvml, made, places, found, WAIT_MS)
            until = time.monotonic_ns() + TOGETHER_NS
            while not code and time.monotonic_ns() < until:
                code = self._wait(nvml, made, places, found, 0)
            if found and not stop.is_set():
                self._take([NvmlEvent(*key, count) for key, count in found.items()])
            if code == LOST:
                stop.wait(LOST_S)
            elif code and code != TIMEOUT:
                return

    def _wait(
        self,
        nvml: Any,
        made: Any,
        places: dict[int, str],
        found: Counter[tuple[str, Kind, int]],
        timeout_ms: int,
    ) -> int:
        """Wait for one event and count it in `found`; returns an nvmlReturn_t, 0 for an event."""
        try:
            event = nvml.nvmlEventSetWait_v2(made, timeout_ms)
        except nvml.NVMLError as error:
            return int(getattr(error, "value", -1))
        device = places.get(_address(event.device))
        if device is None:
            self.counters["nvml_events_foreign"] += 1
        elif event.eventType == XID:
            found[device, "xid", int(event.eventData)] += 1
        elif event.eventType == DOUBLE_BIT:
            self.counters["nvml_double_bit"] += 1  # Xid 48 and the ECC counter report it as well
        return 0


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
