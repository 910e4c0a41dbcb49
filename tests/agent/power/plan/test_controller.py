# SPDX-License-Identifier: Apache-2.0
"""The loop's decisions: the order of things by example, the budget by chance."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.agent.power.plan.card import (
    RETURN_SHARE,
    ClockRange,
    PowerCard,
    PowerRange,
    PowerSample,
)
from stoker.agent.power.plan.controller import Controller
from stoker.agent.power.plan.rules import CardRule, PowerRules
from stoker.native.errors import BadRequest
from stoker.scheduler.sim.chance import Chance

S = 1_000_000_000
TICK = S // 5
RANGE = PowerRange(200, 700, 700)


def card(id: str, **changes: object) -> PowerCard:
    given = {"power": RANGE, "clocks": ClockRange(345, 1980, 15), "ceiling_c": 85.0} | changes
    return PowerCard(id, **given)  # type: ignore[arg-type]


@dataclass
class Device:
    """A card that obeys late, or not, and draws up to its limit."""

    id: str
    limit_w: float = 700.0
    lag: int = 0
    deaf: bool = False
    waiting: list[tuple[int, float]] = field(default_factory=list)
    traffic: float = 0.0

    def obey(self, tick: int) -> None:
        while self.waiting and self.waiting[0][0] <= tick:
            self.limit_w = self.waiting.pop(0)[1]

    def reading(self, now_ns: int, busy: float, memory: float, heat_c: float = 50.0) -> PowerSample:
        self.traffic += 1e9 * busy
        return PowerSample(
            self.id,
            now_ns,
            limit_w=self.limit_w,
            power_w=min(self.limit_w, 90 + 600 * busy),
            clock_mhz=1980.0 if busy else 345.0,
            busy=busy,
            memory_busy=memory,
            temperature_c=heat_c,
            traffic_bytes=self.traffic,
        )


def run(
    controller: Controller,
    devices: list[Device],
    ticks: int,
    *,
    load: object = lambda index, tick: (1.0, 0.3),
    heat: object = lambda index, tick: 50.0,
    seen: object = lambda index, tick: True,
) -> list[str]:
    """Every action as text, with its tick; each write takes the device's lag."""
    said = []
    for tick in range(ticks):
        now_ns = (tick + 1) * TICK
        for device in devices:
            device.obey(tick)
        readings = [
            device.reading(now_ns, *load(i, tick), heat(i, tick))  # type: ignore[operator]
            for i, device in enumerate(devices)
            if seen(i, tick)  # type: ignore[operator]
        ]
        for action in controller.step(readings, now_ns):
            said.append(f"{tick} {action}")
            device = next(each for each in devices if each.id == action.card)
            if action.what == "limit" and not device.deaf:
                assert RANGE.min_w <= action.value <= RANGE.max_w
                device.waiting.append((tick + 1 + device.lag, action.value))
    return said


def limits(devices: list[Device]) -> float:
    return sum(device.limit_w for device in devices)


def test_golden_the_busy_card_gets_what_the_idle_one_does_not_need() -> None:
    cards = [card("a"), card("b")]
    controller = Controller(cards, PowerRules(budget_w=1000, give_up=0.0), 0)
    devices = [Device("a"), Device("b")]
    said = run(controller, devices, 40, load=lambda i, _: (1.0, 0.3) if i == 0 else (0.0, 0.0))
    # First both fall, at once; then what fell was read back, and only then the busy one rises.
    falls = [line for line in said if line.startswith("0 ")]
    assert [line.split()[1] for line in falls] == ["a", "b"]
    rises = [line for line in said if " a limit " in line and not line.startswith("0 ")]
    assert all(int(line.split()[0]) >= 1 for line in rises)
    assert devices[0].limit_w > 650 and limits(devices) <= 1000.5
    assert "other cards of 1000 W" in falls[0]


@pytest.mark.parametrize("busy", [0.0, 0.5])
def test_a_card_whose_clock_stands_still_ends_nothing(busy: float) -> None:
    controller = Controller([card("a"), card("b")], PowerRules(budget_w=900, give_up=0.0), 0)
    devices = [Device("a"), Device("b")]
    for tick in range(30):
        now_ns = (tick + 1) * TICK
        readings = [device.reading(now_ns, 1.0, 0.3) for device in devices]
        if tick % 3:
            readings[1] = readings[1]._replace(clock_mhz=0.0, busy=busy)
        for action in controller.step(readings, now_ns):
            if action.what == "limit":
                next(d for d in devices if d.id == action.card).limit_w = action.value
    assert limits(devices) <= 900.5


@pytest.mark.parametrize("busy", [(1.0, 1.0), (1.0, 0.0), (0.3, 0.9)])
def test_cards_whose_clocks_cannot_be_held_down_keep_the_budget_too(
    busy: tuple[float, float],
) -> None:
    cards = [card(id, clocks=None) for id in "ab"]
    controller = Controller(cards, PowerRules(budget_w=900), 0)
    devices = [Device("a"), Device("b")]
    run(controller, devices, 40, load=lambda i, _: (busy[i], 0.3))
    assert limits(devices) <= 900.5
    assert limits(devices) >= 850 or 0.0 in busy
    assert min(device.limit_w for device in devices) >= 200


def test_nothing_rises_before_the_fall_of_another_was_read_back() -> None:
    controller = Controller([card("a"), card("b")], PowerRules(budget_w=900, give_up=0.0), 0)
    devices = [Device("a"), Device("b", deaf=True)]
    said = run(controller, devices, 50)
    # b never falls: a may not rise, and has to go down to what b leaves of the budget.
    assert devices[1].limit_w == 700
    assert devices[0].limit_w == pytest.approx(200, abs=1)
    assert not [line for line in said if " a limit " in line and "has more use" in line]
    assert controller.ledger.lost_writes > 0


def test_a_limit_that_somebody_else_raised_is_taken_back() -> None:
    controller = Controller([card("a"), card("b")], PowerRules(budget_w=900, give_up=0.0), 0)
    devices = [Device("a"), Device("b")]
    run(controller, devices, 30)
    assert limits(devices) <= 900.5
    devices[0].limit_w = 700.0
    for tick in range(30, 40):
        now_ns = (tick + 1) * TICK
        for device in devices:
            device.obey(tick)
        for action in controller.step(
            [device.reading(now_ns, 1.0, 0.3) for device in devices], now_ns
        ):
            if action.what == "limit":
                next(d for d in devices if d.id == action.card).limit_w = action.value
    assert controller.ledger.foreign == 1
    assert limits(devices) <= 900.5


def test_a_card_that_says_nothing_counts_as_at_its_default_limit() -> None:
    cards = [card("a"), card("b"), card("c")]
    controller = Controller(cards, PowerRules(budget_w=1500, give_up=0.0), 0)
    devices = [Device(id) for id in "abc"]
    run(controller, devices, 60, seen=lambda i, tick: i != 2 or tick < 20)
    # It may have been reset meanwhile: 700 W are kept for it.
    assert devices[0].limit_w + devices[1].limit_w <= 800.5


def test_a_card_off_the_bus_holds_only_what_its_return_needs() -> None:
    cards = [card("a"), card("b"), card("c")]
    controller = Controller(cards, PowerRules(budget_w=1500, give_up=0.0), 0)
    devices = [Device(id) for id in "abc"]
    run(controller, devices, 30)
    assert limits(devices) <= 1500.5
    now_ns = 31 * TICK
    for tick in range(31, 80):
        now_ns = tick * TICK
        readings = [device.reading(now_ns, 1.0, 0.3) for device in devices[:2]]
        actions = controller.step([*readings, PowerSample("c", now_ns, gone=True)], now_ns)
        for action in actions:
            if action.what == "limit":
                next(d for d in devices if d.id == action.card).limit_w = action.value
    assert controller.ledger.counted_w("c", now_ns) == RETURN_SHARE * RANGE.default_w
    assert devices[0].limit_w + devices[1].limit_w == pytest.approx(1400, abs=10), "their roofs"
    # Back after a reset, at its default limit: within a second the budget holds again.
    devices[2].limit_w = RANGE.default_w
    for tick in range(80, 90):
        now_ns = tick * TICK
        readings = [device.reading(now_ns, 1.0, 0.3) for device in devices]
        for action in controller.step(readings, now_ns):
            if action.what == "limit":
                next(d for d in devices if d.id == action.card).limit_w = action.value
    assert limits(devices) <= 1500.5
    assert controller.ledger.committed_w(now_ns) <= 1500.5


def test_an_idle_card_that_says_nothing_of_its_memory_holds_its_lowest_limit() -> None:
    cards = [card("a"), card("b")]
    controller = Controller(cards, PowerRules(budget_w=900, give_up=0.0), 0)
    devices = [Device("a"), Device("b")]
    loads = {"a": (1.0, 0.3), "b": (0.0, 0.0)}
    for tick in range(1, 90):
        now_ns = tick * TICK
        if tick == 60:
            loads["b"] = (1.0, 0.3)
        readings = [device.reading(now_ns, *loads[device.id]) for device in devices]
        readings[1] = readings[1]._replace(memory_busy=None)
        for action in controller.step(readings, now_ns):
            if action.what == "limit":
                next(d for d in devices if d.id == action.card).limit_w = action.value
        if tick == 59:
            assert devices[1].limit_w == pytest.approx(RANGE.min_w, abs=1)
            assert devices[0].limit_w == pytest.approx(700, abs=8)
    assert devices[1].limit_w > 300, "it works now, and is thought to need power"
    assert limits(devices) <= 900.5


def test_heat_goes_before_budget_and_below_a_floor_of_the_rules() -> None:
    rules = PowerRules(budget_w=1400, cards={"a": CardRule(at_least_w=600)})
    controller = Controller([card("a"), card("b")], rules, 0)
    devices = [Device("a"), Device("b")]
    said = run(controller, devices, 150, heat=lambda i, tick: 84.0 + tick / 40 if i == 0 else 50.0)
    assert devices[0].limit_w <= RANGE.min_w + 2
    assert [line for line in said if " a limit " in line][-1].endswith("aim 83.5 C")


def test_caps_of_cards_and_tenants_hold() -> None:
    rules = PowerRules(cards={"a": CardRule(at_most_w=300)}, tenants={"eve": 500.0})
    controller = Controller([card(id) for id in "abc"], rules, 0)
    now_ns, devices = 0, [Device(id) for id in "abc"]
    holders = {"b": frozenset({"eve"}), "c": frozenset({"eve", "bob"})}
    for _ in range(20):
        now_ns += TICK
        readings = [device.reading(now_ns, 1.0, 0.3) for device in devices]
        for action in controller.step(readings, now_ns, holders):
            if action.what == "limit":
                next(d for d in devices if d.id == action.card).limit_w = action.value
    assert devices[0].limit_w <= 300
    assert devices[1].limit_w + devices[2].limit_w <= 500.5


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            PowerRules(cards={"a": CardRule(at_most_w=350)}),
            PowerRules(cards={"a": CardRule(at_most_w=345)}),
        ),
        (PowerRules(tenants={"eve": 350.0}), PowerRules(tenants={"eve": 345.0})),
    ],
)
def test_a_cap_that_is_lowered_by_a_little_holds_as_well(
    before: PowerRules, after: PowerRules
) -> None:
    controller = Controller([card("a"), card("b")], before, 0)
    devices = [Device("a"), Device("b")]
    for tick in range(60):
        now_ns = (tick + 1) * TICK
        if tick == 30:
            assert devices[0].limit_w == pytest.approx(350)
            controller.set_rules(after)
        readings = [device.reading(now_ns, 1.0, 0.3) for device in devices]
        for action in controller.step(readings, now_ns, {"a": frozenset({"eve"})}):
            if action.what == "limit":
                next(d for d in devices if d.id == action.card).limit_w = action.value
    assert devices[0].limit_w == pytest.approx(345)
    assert devices[1].limit_w == 700


def test_what_cannot_be_capped_is_measured_and_taken_off() -> None:
    cards = [card("a"), card("b"), card("x", power=None, clocks=None)]
    controller = Controller(cards, PowerRules(budget_w=1200, give_up=0.0), 0)
    devices = [Device("a"), Device("b"), Device("x", limit_w=400.0)]
    run(controller, devices, 40)
    assert devices[0].limit_w + devices[1].limit_w <= 1200 - 400 * 1.05


def test_new_rules_that_cannot_be_kept_leave_the_old_ones() -> None:
    controller = Controller([card("a")], PowerRules(budget_w=500), 0)
    with pytest.raises(BadRequest, match="200 to 700 W can be kept"):
        controller.set_rules(PowerRules(budget_w=100))
    assert controller.rules.budget_w == 500


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 6), min_size=2, max_size=5),
    st.floats(0.35, 1.0),
    st.integers(0, 1 << 30),
    st.floats(0, 0.6),
)
def test_limits_never_add_up_to_more_than_the_budget(
    lags: list[int], share: float, seed: int, lost: float
) -> None:
    """Whatever the loads are, however late devices obey, whatever readings are lost: once limits
    are within the budget they stay there, whatever writes are under way."""
    random = Chance(seed).unit
    devices = [Device(f"d{i}", lag=lag) for i, lag in enumerate(lags)]
    budget = max(share * 700, 205) * len(devices)
    controller = Controller([card(d.id) for d in devices], PowerRules(budget_w=budget), 0)
    kept = False
    state = [(random(), 0.3) for _ in devices]
    for tick in range(120):
        now_ns = (tick + 1) * TICK
        for device in devices:
            device.obey(tick)
        kept = kept or limits(devices) <= budget
        assert not kept or limits(devices) <= budget + 0.5
        for i in range(len(devices)):
            if random() < 0.1:
                state[i] = (random(), random())
        readings = [
            device.reading(now_ns, *state[i], 40 + 50 * random())
            for i, device in enumerate(devices)
            if random() >= lost
        ]
        for action in controller.step(readings, now_ns):
            device = next(each for each in devices if each.id == action.card)
            if action.what == "limit":
                assert RANGE.min_w <= action.value <= RANGE.max_w
                device.waiting.append((tick + 1 + device.lag, action.value))
            else:
                assert 345 <= action.value <= 1980


def test_a_tenants_cap_below_the_lowest_limits_of_its_cards_is_said_not_to_be_kept() -> None:
    rules = PowerRules(budget_w=1400, tenants={"eve": 300})
    controller = Controller([card("a"), card("b")], rules, 0)
    readings = [Device(id).reading(TICK, 1.0, 0.3) for id in "ab"]
    both = {"a": frozenset({"eve"}), "b": frozenset({"eve"})}
    controller.step(readings, TICK, both)
    said = controller.unkept["eve"]
    assert "is 300 W" in said and "2 devices" in said and "400 W" in said
    controller.step(readings, 20 * S, {"a": frozenset({"eve"})})
    assert controller.unkept == {}
