# SPDX-License-Identifier: Apache-2.0
"""One card's threads against cards that answer as a test says: states, histories, hung calls."""

from __future__ import annotations

import ctypes
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from stoker.agent.devices import sampled as module
from stoker.agent.devices.card import Calls, Card, Silent
from stoker.agent.devices.fields import SPECS, TABLE
from stoker.agent.devices.history import POINTS, History
from stoker.agent.devices.plan import Plan, Snapshot
from stoker.agent.devices.readings import Absent, CardReadings, Fields, Reading, plain
from stoker.agent.devices.sampled import Sampled
from stoker.agent.devices.sampler import Samplers, sample
from stoker.native import _devices


class Fake(Card):
    """Answers `answer` in every fast round."""

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
    end = time.monotonic() + 5
    while not true() and time.monotonic() < end:
        time.sleep(0.005)
    return true()


def test_the_table_has_each_field_once_and_in_si() -> None:
    assert len(SPECS) == len(TABLE)
    assert {spec.unit for spec in TABLE} == {"", "1", "W", "J", "C", "B", "Hz", "ns"}


def test_every_field_is_a_reading_or_an_absence_with_a_reason() -> None:
    sampled = Sampled(Fake())
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
    sampled = Sampled(card)
    sampled.round()
    assert sampled.trouble()[0] == state
    assert why in sampled.trouble()[1]


def test_a_binding_that_raises_anything_is_a_state_and_ends_no_thread() -> None:
    card = Fake()
    card.answer = raises
    sampled = Sampled(card)
    sampled.start()
    assert soon(lambda: sampled.counters["failed"] > 1)
    assert sampled.readings().state == "missing"
    assert "own idea" in sampled.readings().why_not("power_w")
    card.answer = lambda: {"power_w": reading(6.0)}
    assert soon(lambda: sampled.readings().state == "ok")
    sampled.stop()
    sampled.join(2)


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
    """A reader in C that is between two rounds."""

    def __init__(self, *_: object) -> None:
        pass

    def snapshot(self) -> tuple[int, int, list[int], bytes]:
        return 7, time.time_ns(), [], b""

    def state(self) -> tuple[int, int, int, int, int, int, int]:
        return -1, 0, 7, 0, 0, 0, 0

    def points(self, *_: object) -> list[tuple[int, float]]:
        return []


class Planned(Fake):
    """Its fast fields are a plan's; `count` is asked for by the thread in Python."""

    count, decoded = 0, 0

    def __init__(self) -> None:
        super().__init__()
        self._plan = Plan()

    def plan(self) -> Plan:
        return self._plan

    def decode(self, found: Snapshot) -> Fields:
        self.decoded += 1
        return {"power_w": reading(5.0)}

    def steps(self) -> tuple[Callable[[], Fields], ...]:
        return (lambda: {"ecc_corrected": reading(self.count)},)


def test_what_is_read_once_a_second_is_told_at_once_whoever_looked_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "Reader", Still)
    card = Planned()
    sampled = Sampled(card)
    sampled.round()
    assert sampled.readings().number("ecc_corrected") == 0
    card.count = 200
    sampled.round()  # within the same round of the reader
    assert sampled.readings().number("ecc_corrected") == 200
    assert sampled.readings().number("power_w") == 5.0
    assert card.decoded == 1, "what grew between two rounds would be lost"


def test_power_by_energy_needs_a_second_and_says_its_error() -> None:
    card = Fake()
    counter = {"t": 10_000_000_000, "j": 0.0}
    card.answer = lambda: {"energy_j": Reading(counter["j"], "J", int(counter["t"]), 0, 2.0)}
    sampled = Sampled(card)
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
    assert fresh.began.wait(5)
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


def test_a_history_keeps_the_newest_points() -> None:
    history = History()
    for i in range(POINTS + 5):
        history.add(i + 1, float(i))
    points = history.points()
    assert len(points) == POINTS
    assert (points[0], points[-1]) == ((6, 5.0), (POINTS + 5, POINTS + 4.0))
    assert history.points(since_ns=POINTS + 3) == points[-2:]
    assert history.last_ns == POINTS + 5


# --- the thread in C ------------------------------------------------------------------------------

CALL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint32))


@pytest.fixture
def driver() -> Iterator[dict[str, object]]:
    """A function as a driver's: writes `value`, returns `code`, may wait."""
    state: dict[str, object] = {"value": 7, "code": 0, "wait": None, "handle": 0}

    @CALL
    def call(handle: int, out: ctypes.Array[ctypes.c_uint32]) -> int:
        state["handle"] = handle
        wait = state["wait"]
        if isinstance(wait, threading.Event):
            wait.wait(10)
        out[0] = int(str(state["value"]))
        return int(str(state["code"]))

    state["call"] = call
    state["address"] = ctypes.cast(call, ctypes.c_void_p).value
    yield state


def test_a_reader_calls_keeps_and_tells(driver: dict[str, object]) -> None:
    step = (int(str(driver["address"])), (42, 8), 2, 0, 1, 0, 0, 24)
    taps = [
        (_devices.U32, 0, 8, 0, 0.5, True),
        (_devices.RATE, 0, 0, 2, 1.0, False),
    ]
    reader = _devices.Reader([step], taps, bytes(24), 5_000_000)
    assert soon(lambda: reader.snapshot()[0] > 3)
    _, t_ns, codes, memory = reader.snapshot()
    assert driver["handle"] == 42
    assert (codes, int.from_bytes(memory[8:12], "little")) == ([0], 7)
    assert abs(t_ns - time.time_ns()) < 10**10
    points = reader.points(0)
    assert {value for _, value in points} == {3.5} and points == sorted(points)
    assert {value for _, value in reader.points(1)} == {0.0}
    driver["value"] = 0xFFFFFFFF  # no value
    driver["code"] = 3
    assert soon(lambda: reader.snapshot()[2] == [3])
    count = len(reader.points(0))
    before = reader.snapshot()[0]
    assert soon(lambda: reader.snapshot()[0] > before + 2)
    assert len(reader.points(0)) == count
    assert reader.points(0, most=1) == []
    reader.stop()
    assert (reader.snapshot()[0], reader.state()[0], reader.points(0)) == (0, -1, [])


def test_slow_steps_have_their_turns_and_keep_their_answers(driver: dict[str, object]) -> None:
    """Both are the same function: that of every third round says what it was then."""
    place = int(str(driver["address"]))
    steps = [
        (place, (1, 0), 2, 0, 1, 0, 0, 8),
        (place, (2, 8), 2, 0, 3, 1, 8, 8),
    ]
    reader = _devices.Reader(steps, [(_devices.U32, 0, 0, 0, 1.0, False)], bytes(24), 5_000_000)
    assert soon(lambda: reader.state()[2] >= 6)
    calls, rounds = reader.state()[5], reader.state()[2]
    assert rounds + rounds // 3 - 2 <= calls <= rounds + rounds // 3 + 3
    driver["value"] = 9
    assert soon(lambda: reader.snapshot()[3][8] == 9)
    assert reader.latest()[1] == [9.0]
    codes = reader.state()[6]
    driver["code"] = 3
    assert soon(lambda: reader.snapshot()[2] == [3, 3])
    assert codes + 1 <= reader.state()[6] <= codes + 2
    assert str(reader.latest()[1]) == "[nan]"
    reader.stop()
    assert reader.latest() == (0, [])


def test_a_drivers_own_samples_are_kept_once_and_with_their_times() -> None:
    """The driver's buffer has the newest four; of two answers that overlap each comes once."""
    newest = {"us": 1_000}

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
    def call(count: int, rows: int) -> int:
        newest["us"] += 2
        stamps = range(newest["us"] - 3, newest["us"] + 1)
        data = b"".join(struct.pack("<QQ", us, us * 10) for us in stamps)
        ctypes.memmove(rows, data, len(data))
        ctypes.memmove(count, (4).to_bytes(4, "little"), 4)
        return 0

    place = ctypes.cast(call, ctypes.c_void_p).value or 0
    size = 8 + 256 * 16
    taps = [(_devices.SAMPLES, 0, 8, 0, 0.5, False)]
    reader = _devices.Reader([(place, (0, 8), 3, 0, 1, 0, 0, size)], taps, bytes(size), 5_000_000)
    assert soon(lambda: reader.state()[2] >= 3)
    points = reader.points(0)
    reader.stop()
    assert len(points) >= 8
    assert [t for t, _ in points] == list(range(points[0][0], points[-1][0] + 1, 1_000))
    assert all(value == t_ns / 1_000 * 5 for t_ns, value in points)


def test_a_time_past_and_a_rate_by_the_drivers_clock() -> None:
    asked = []

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64))
    def call(since_us: int, out: ctypes._Pointer[ctypes.c_uint64]) -> int:
        asked.append(time.time_ns() // 1000 - since_us)
        out[0], out[1] = 70 * len(asked), 2 * len(asked)
        return 0

    place = ctypes.cast(call, ctypes.c_void_p).value or 0
    taps = [
        (_devices.U64, 0, 0, 0, 1.0, False),
        (_devices.U64, 0, 8, 0, 1.0, False),
        (_devices.RATE, 0, 2, 1, 1.0, False),
    ]
    step = (place, (5_000_000, 0), 2, 1, 1, 0, 0, 16)
    reader = _devices.Reader([step], taps, bytes(24), 5_000_000)
    assert soon(lambda: len(reader.points(2)) >= 2)
    assert {value for _, value in reader.points(2)} == {35.0}
    assert 5_000_000 <= min(asked) < 65_000_000
    reader.stop()


def test_a_reader_that_hangs_is_seen_and_left_behind(driver: dict[str, object]) -> None:
    held = threading.Event()
    driver["wait"] = held
    step = (int(str(driver["address"])), (1, 0), 2, 0, 1, 0, 0, 16)
    reader = _devices.Reader([step], [], bytes(16), 5_000_000)
    assert soon(lambda: reader.state()[0] == 0)
    assert reader.snapshot()[0] == 0
    assert reader.state()[1] <= time.monotonic_ns()
    began = time.monotonic()
    held.set()
    reader.stop()
    assert time.monotonic() - began < 5


def step(
    at: int = 4096, inside: tuple[int, ...] = (0,), every: int = 1, turn: int = 0, size: int = 8
) -> _devices.Step:
    return (at, inside, (1 << len(inside)) - 1, 0, every, turn, 0, size)


@pytest.mark.parametrize(
    ("steps", "taps", "memory"),
    [
        ([], [], bytes(8)),
        ([step(0)], [], bytes(8)),
        ([step(inside=(9,))], [], bytes(8)),
        ([step(every=0)], [], bytes(8)),
        ([step(every=2, turn=2)], [], bytes(8)),
        ([step(size=9)], [], bytes(8)),
        ([step()], [(_devices.U16, 1, 0, 0, 1.0, False)], bytes(8)),
        ([step()], [(_devices.U16, 0, 4, 0, 1.0, False)], bytes(8)),
        ([step()], [(_devices.SAMPLES, 0, 0, 0, 1.0, False)], bytes(8)),
        ([step()], [(_devices.RATE, 0, 0, 1, 1.0, False)], bytes(8)),
        ([step()], [(9, 0, 0, 0, 1.0, False)], bytes(8)),
        ([step()] * (_devices.STEPS + 1), [], bytes(8)),
        ([step(inside=(0,) * 7)], [], bytes(8)),
        ([step()], [], bytes((1 << 17) + 1)),
    ],
)
def test_a_plan_that_leaves_its_bounds_is_refused(
    steps: list[_devices.Step], taps: list[_devices.Tap], memory: bytes
) -> None:
    with pytest.raises(ValueError):
        _devices.Reader(steps, taps, memory, 5_000_000)
