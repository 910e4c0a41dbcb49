# SPDX-License-Identifier: Apache-2.0
"""Threads of one card against scripted cards: states, histories, hung calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from stoker.agent.devices.card import Calls, DrivenCard, Points, PolledCard, Silent
from stoker.agent.devices.fields import FAST, NEWEST, SPECS, TABLE
from stoker.agent.devices.readings import Absent, CardReadings, Fields, Reading, plain
from stoker.agent.devices.record import RecordCopy
from stoker.agent.devices.samplers import device_samples, driven
from stoker.agent.devices.samplers import sampled as module
from stoker.agent.devices.samplers.device_samples import sample
from stoker.agent.devices.samplers.driven import Driven
from stoker.agent.devices.samplers.polled import Polled
from stoker.agent.devices.samplers.sampler import Samplers


class Fake(PolledCard):
    """A card that answers `answer` in every fast round."""

    def __init__(self, id: str = "a") -> None:
        super().__init__()
        self.id = id
        self.answer: Callable[[], Fields] = lambda: {"power_w": reading(5.0)}
        self.began = threading.Event()

    def once(self) -> Fields:
        return {"model": reading("Fake")}

    def fast(self) -> Fields:
        self.began.set()
        found: Fields = self.calls.make("fakeCall", self.answer)
        return found


def reading(value: object) -> Reading:
    return Reading(value, "W", time.time_ns())


def raises() -> Fields:
    raise RuntimeError("a binding's own idea of an error")


def soon(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + 60
    while not true() and time.monotonic() < end:
        time.sleep(0.005)
    return true()


def test_the_table_has_each_field_once_and_in_si() -> None:
    assert len(SPECS) == len(TABLE)
    assert {spec.unit for spec in TABLE} == {"", "1", "W", "J", "C", "B", "Hz", "ns"}


def test_every_field_is_a_reading_or_an_absence_with_a_reason() -> None:
    sampled = Polled(Fake())
    assert sampled.readings().state == "starting"
    sampled.round()
    found = sampled.readings()
    assert list(found.fields) == list(SPECS)
    assert found.number("power_w") == 5.0
    assert found.why_not("serial") == "it is not read from this device"
    assert (found.number("model"), found.why_not("model")) == (None, "")
    assert plain(found.fields["serial"]) == {"absent": "it is not read from this device"}


@pytest.mark.parametrize(
    ("answer", "state", "why"),
    [
        ({"power_w": Absent("GPU is lost", "lost"), "energy_j": reading(1.0)}, "lost", "is lost"),
        ({"power_w": Absent("no", "refused"), "energy_j": Absent("n", "refused")}, "refused", "no"),
        ({"power_w": Absent("no", "refused"), "energy_j": reading(1.0)}, "ok", ""),
        ({"power_w": Absent("m", "mismatch")}, "mismatch", "m"),
        ({"power_w": Absent("not supported")}, "ok", ""),
    ],
)
def test_a_cards_state_is_what_its_answers_say(answer: Fields, state: str, why: str) -> None:
    card = Fake()
    card.answer = lambda: dict(answer)
    sampled = Polled(card)
    sampled.round()
    assert sampled.trouble()[0] == state
    assert why in sampled.trouble()[1]


def test_a_binding_that_raises_anything_is_a_state_and_ends_no_thread() -> None:
    card = Fake()
    card.answer = raises
    sampled = Polled(card)
    sampled.start()
    assert soon(lambda: sampled.counters["failed"] > 1)
    assert sampled.readings().state == "missing"
    assert "own idea" in sampled.readings().why_not("power_w")
    card.answer = lambda: {"power_w": reading(6.0)}
    assert soon(lambda: sampled.readings().state == "ok")
    sampled.stop()
    sampled.join(60)


def test_a_call_that_hangs_is_named_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HUNG_NS", 50_000_000)
    held, free = threading.Event(), Fake("free")
    stuck = Fake("stuck")
    stuck.answer = lambda: {"power_w": reading(float(held.wait(10)))}
    samplers = Samplers()
    samplers.set([stuck, free])
    assert soon(lambda: samplers.troubles().get("stuck", ("", ""))[0] == "hung")
    assert "hung call fakeCall" in samplers.troubles()["stuck"][1]
    before = samplers.get("free")
    assert before is not None
    rounds = before.counters["rounds"]
    assert soon(lambda: before.counters["rounds"] > rounds + 1)
    said = sample(samplers.readings()["stuck"])
    assert said.power_w is None and "hung call" in said.absent["power_w"]
    held.set()
    assert soon(lambda: not samplers.troubles())
    samplers.close()


class Still:
    """A stand-in for the reader in C, between two rounds."""

    def __init__(self, *_: object) -> None:
        pass

    def snapshot(self) -> tuple[int, int, int, bytes, bytes, bytes]:
        return 7, time.time_ns(), time.time_ns(), b"", b"", b""

    def state(self) -> tuple[int, int, int, int, int, int, int]:
        return -1, 0, 7, 0, 0, 0, 0

    def calm(self, changes: int) -> bool:
        return changes == 0

    def points(self, *_: object) -> list[tuple[int, float]]:
        return []

    def renew(self) -> None:
        pass

    def stop(self) -> None:
        pass


class Changing(Still):
    """A stand-in for the reader of a card that changes."""

    rounds, changes, doing = 7, 0, -1

    def __init__(self, *_: object) -> None:
        Changing.rounds, Changing.changes, Changing.doing = 7, 0, -1

    def snapshot(self) -> tuple[int, int, int, bytes, bytes, bytes]:
        return self.rounds, time.time_ns(), time.time_ns(), b"", b"", b""

    def state(self) -> tuple[int, int, int, int, int, int, int]:
        return self.doing, 0, self.rounds, 0, 0, 0, self.changes

    def calm(self, changes: int) -> bool:
        return self.doing < 0 and changes == self.changes


LOST = Absent("the card has fallen off the bus", "lost")


class Record(DrivenCard):
    """A card whose fast fields come from a record; the thread in Python reads `count`."""

    id, table = "a", "idle"
    count, decoded = 0, 0

    def once(self) -> Fields:
        return {"model": reading("Fake")}

    def address_of_handle(self) -> int:
        return 0

    def read(self, found: RecordCopy, points: Points) -> Fields:
        self.decoded += 1
        return {"power_w": reading(5.0)}

    def rest(self) -> Fields:
        return {"ecc_corrected": reading(self.count)}


def test_what_is_read_seldom_is_told_at_once_whoever_looked_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driven, "CardReader", Still)
    card = Record()
    sampled = Driven(card)
    sampled.round()
    assert sampled.readings().number("ecc_corrected") == 0
    card.count = 200
    sampled.round()  # within the same round of the reader
    assert sampled.readings().number("ecc_corrected") == 200
    assert sampled.readings().number("power_w") == 5.0
    assert card.decoded == 1, "what grew between two rounds would be lost"


def test_a_look_at_a_card_decodes_what_has_changed_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Looks come several times a second, and most find the card as it was."""
    monkeypatch.setattr(driven, "CardReader", Changing)
    card = Record()
    sampled = Driven(card)
    sampled.round()
    assert (sampled.trouble()[0], card.decoded) == ("ok", 1)
    Changing.rounds = 8
    assert (sampled.trouble()[0], card.decoded) == ("ok", 1)
    Changing.changes = 1
    monkeypatch.setattr(card, "read", lambda found, points: dict.fromkeys(FAST, LOST))
    assert sampled.trouble() == ("lost", LOST.why)


def test_a_look_at_a_card_names_the_call_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driven, "CardReader", Changing)
    monkeypatch.setattr(driven._devices, "calls", lambda table: ["nvmlDeviceGetPowerUsage"])
    sampled = Driven(Record())
    sampled.round()
    assert sampled.trouble()[0] == "ok"
    Changing.doing = 0
    assert sampled.trouble()[0] == "hung"
    assert "nvmlDeviceGetPowerUsage" in sampled.trouble()[1]


def test_observations_and_looks_ask_for_fields_that_are_ready() -> None:
    asked: set[str] = set()

    def busy(name: str) -> float | None:
        asked.add(name)
        return 0.5 if name in ("busy_ratio", "clock_max_hz") else None

    device_samples._values(busy)
    assert asked | {"throttle", "power_w", "energy_power_w"} == set(NEWEST)


def test_a_library_that_cannot_be_used_is_a_state_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    why = "libnvidia-ml.so.1: cannot open shared object file"

    def refused(*_: object) -> Still:
        raise RuntimeError(why)

    monkeypatch.setattr(driven, "CardReader", refused)
    sampled = Driven(Record())
    sampled.start()
    assert soon(lambda: sampled.trouble()[0] == "missing")
    assert why in sampled.readings().why_not("power_w")
    monkeypatch.setattr(driven, "CardReader", Still)
    assert soon(lambda: sampled.readings().state == "ok")
    sampled.stop()
    sampled.join(60)


def test_power_by_energy_needs_a_second_and_says_its_error() -> None:
    card = Fake()
    counter = {"t": 10_000_000_000, "j": 0.0}
    card.answer = lambda: {"energy_j": Reading(counter["j"], "J", int(counter["t"]), 0, 2.0)}
    sampled = Polled(card)
    for _ in range(12):
        sampled.round()
        last = sampled.readings().fields["energy_power_w"]
        counter["t"] += 100_000_000
        counter["j"] += 30.0
    assert isinstance(last, Reading)
    assert last.value == pytest.approx(300.0)
    assert last.error == pytest.approx(4.0, rel=0.2)
    counter["j"] = 1.0  # the driver was loaded again
    sampled.round()
    assert isinstance(sampled.readings().fields["energy_power_w"], Absent)


def test_a_silent_device_has_no_thread_and_says_why() -> None:
    samplers = Samplers()
    samplers.set([Silent("pocl-0", "it has no sensor")])
    found = samplers.readings()["pocl-0"]
    assert (found.state, found.why_not("power_w")) == ("ok", "it has no sensor")
    assert samplers.settled
    samplers.close()


def test_a_new_scan_keeps_the_history_of_a_card() -> None:
    samplers = Samplers()
    samplers.set([Fake("a"), Fake("b")])
    kept = samplers.get("a")
    assert kept is not None and soon(lambda: len(kept.points("power_w")) > 1)
    fresh = Fake("a")
    samplers.set([fresh])
    assert samplers.get("a") is kept and samplers.get("b") is None
    assert fresh.began.wait(60)
    samplers.close()


def test_an_observation_takes_the_first_power_there_is() -> None:
    fields: Fields = {"power_w": Absent("none"), "energy_power_w": reading(7.0)}
    made = sample(CardReadings("a", 1, fields))
    assert (made.power_w, made.busy_ratio) == (7.0, None)
    assert made.absent["busy_ratio"] == "it is not read from this device"


def test_what_is_not_supported_is_not_asked_again_soon() -> None:
    calls = Calls()
    calls.remember("f", Absent("no"), for_ever=False)
    assert calls.refused("f") == Absent("no")
    assert calls.refused("g") is None
