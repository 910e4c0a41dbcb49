# SPDX-License-Identifier: Apache-2.0
"""Event sets of a binding that is not there: what came together, who is heard, beginning anew."""

from __future__ import annotations

import ctypes
import queue
import time
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.agent.devices.card import Silent
from stoker.agent.devices.nvidia.card import NvidiaCard
from stoker.agent.health import nvml_events
from stoker.agent.health.nvml_events import DOUBLE_BIT, TIMEOUT, XID, NvmlEvent, NvmlEvents

UNINITIALIZED = 1


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(str(value))
        self.value = value


class Nvml:
    """Answers of the functions that are called; `coming` are events, or codes of errors."""

    NVMLError = NVMLError

    def __init__(self) -> None:
        self.coming: list[tuple[int, int, int] | int] = []
        self.sets = 0
        self.registered: list[tuple[int, int]] = []
        self.refuses = 0

    def nvmlEventSetCreate(self) -> int:
        self.sets += 1
        return self.sets

    def nvmlEventSetFree(self, made: int) -> None:
        pass

    def nvmlDeviceGetSupportedEventTypes(self, handle: Any) -> int:
        return XID | DOUBLE_BIT | 0x1

    def nvmlDeviceRegisterEvents(self, handle: Any, types: int, made: int) -> None:
        if handle.value == self.refuses:
            raise NVMLError(15)
        self.registered.append((handle.value, types))

    def nvmlEventSetWait_v2(self, made: int, timeout_ms: int) -> Any:
        if not self.coming:
            if timeout_ms:
                time.sleep(0.005)
            raise NVMLError(TIMEOUT)
        first = self.coming.pop(0)
        if isinstance(first, int):
            raise NVMLError(first)
        address, kind, data = first
        return SimpleNamespace(device=ctypes.c_void_p(address), eventType=kind, eventData=data)


def card(nvml: Nvml, id: str, address: int) -> NvidiaCard:
    made = NvidiaCard.__new__(NvidiaCard)
    made.id, made._nvml, made._handle = id, nvml, ctypes.c_void_p(address)
    return made


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml_events, "AGAIN_S", 0.01)
    monkeypatch.setattr(nvml_events, "LOST_S", 0.01)


def test_equal_events_come_together_and_foreign_ones_are_counted() -> None:
    nvml, came = Nvml(), queue.Queue[list[NvmlEvent]]()
    nvml.coming = [(16, XID, 31)] * 40 + [(32, XID, 79), (99, XID, 1), (16, DOUBLE_BIT, 0)]
    events = NvmlEvents(came.put)
    events.set([card(nvml, "a", 16), card(nvml, "b", 32), Silent("pocl-0", "no sensor")])
    assert came.get(timeout=60) == [NvmlEvent("a", "xid", 31, 40), NvmlEvent("b", "xid", 79, 1)]
    events.close()
    assert sorted(nvml.registered) == [(16, XID | DOUBLE_BIT), (32, XID | DOUBLE_BIT)]
    assert (events.counters["nvml_events_foreign"], events.counters["nvml_double_bit"]) == (1, 1)


def test_a_card_that_cannot_be_registered_costs_only_its_own_events() -> None:
    nvml, came = Nvml(), queue.Queue[list[NvmlEvent]]()
    nvml.refuses = 16
    nvml.coming = [(32, XID, 48)]
    events = NvmlEvents(came.put)
    events.set([card(nvml, "a", 16), card(nvml, "b", 32)])
    assert came.get(timeout=60) == [NvmlEvent("b", "xid", 48, 1)]
    events.close()


def test_a_card_that_was_lost_meanwhile_is_registered_later() -> None:
    nvml, came = Nvml(), queue.Queue[list[NvmlEvent]]()
    nvml.refuses = 16
    events = NvmlEvents(came.put)
    events.set([card(nvml, "a", 16), card(nvml, "b", 32)])
    nvml.coming = [(32, XID, 48)]
    assert came.get(timeout=60) == [NvmlEvent("b", "xid", 48, 1)]
    nvml.refuses = 0
    end = time.monotonic() + 60
    while len(nvml.registered) < 2 and time.monotonic() < end:
        time.sleep(0.005)
    nvml.coming = [(16, XID, 79)]
    assert came.get(timeout=60) == [NvmlEvent("a", "xid", 79, 1)]
    events.close()
    assert nvml.sets == 1


def test_a_driver_that_was_loaded_again_is_registered_with_again() -> None:
    nvml, came = Nvml(), queue.Queue[list[NvmlEvent]]()
    nvml.coming = [15, (16, XID, 13), UNINITIALIZED, (16, XID, 31)]
    events = NvmlEvents(came.put)
    events.set([card(nvml, "a", 16)])
    assert came.get(timeout=60) == [NvmlEvent("a", "xid", 13, 1)]
    assert came.get(timeout=60) == [NvmlEvent("a", "xid", 31, 1)]
    events.close()
    assert nvml.sets == 2


def test_the_same_cards_found_anew_keep_their_set() -> None:
    nvml, came = Nvml(), queue.Queue[list[NvmlEvent]]()
    events = NvmlEvents(came.put)
    events.set([card(nvml, "a", 16)])
    nvml.coming = [(16, XID, 13)]
    assert came.get(timeout=60)
    events.set([card(nvml, "a", 16)])
    nvml.coming = [(16, XID, 31)]
    assert came.get(timeout=60) == [NvmlEvent("a", "xid", 31, 1)]
    events.close()
    assert nvml.sets == 1
