# SPDX-License-Identifier: Apache-2.0
"""The movement of a simulated card, against closed forms and an oracle of small dumb steps."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from fakes.cards.simulated_card import MS, S, alone, card

from stoker.native import _sim
from stoker.native.errors import BadRequest


def now(node: _sim.Node) -> dict[str, Any]:
    state: dict[str, Any] = node.truth(0)["now"]
    return state


def test_a_step_of_load_warms_the_die_by_the_exponential_law() -> None:
    model = card({"leakage_per_c": 0.0})
    node = alone(model)
    start = now(node)["die_c"]
    assert start == pytest.approx(25 + 80 * 0.06)
    node.lock_clocks(0, 1800, 1800)
    node.advance(S)
    node.set_load(0, 1.0, 0.5, 0.0)
    end = 25 + (80 + 500 + 50) * 0.06
    for second in (1, 5, 12, 100):
        node.advance(S + second * S - node.now_ns)
        expected = end + (start - end) * math.exp(-second / (0.06 * 200))
        assert now(node)["die_c"] == pytest.approx(expected, abs=1e-6), second
        assert now(node)["power_w"] == pytest.approx(630)


def test_energy_is_the_integral_of_power_and_what_the_die_took_up() -> None:
    """With leakage, power depends on temperature: the first law holds it all the same."""
    node = alone(card())
    node.set_load(0, 0.7, 0.4, 0.3)
    node.advance(S)
    before, joules, away = now(node), 0.0, 0.0
    for _ in range(1500):
        old = now(node)
        node.advance(10 * MS)
        new = now(node)
        joules += (old["power_w"] + new["power_w"]) / 2 * 0.01
        away += ((old["die_c"] + new["die_c"]) / 2 - 25) / 0.06 * 0.01
    after = now(node)
    spent = after["energy_j"] - before["energy_j"]
    assert spent == pytest.approx(joules, rel=1e-4)
    assert spent == pytest.approx(away + 200 * (after["die_c"] - before["die_c"]), rel=1e-4)


@pytest.mark.parametrize("limit_w", [150, 300, 444, 600])
def test_the_limiter_settles_at_the_highest_clock_within_the_limit(limit_w: int) -> None:
    model = card()
    node = alone(model)
    node.set_load(0, 1.0, 1.0, 0.2)
    node.set_limit(0, limit_w * 1000)
    node.advance(200 * S)
    state = now(node)
    higher = _sim.power_at(model, 1.0, 1.0, 0.2, state["clock_mhz"] + 15, state["die_c"])
    assert state["power_w"] <= limit_w
    assert higher > limit_w * (1 - 0.005)
    assert (1800 - state["clock_mhz"]) % 15 == 0
    assert state["why"] == 1 << 1


def test_the_limiter_needs_its_time_constant() -> None:
    """The clock falls from the highest to that of the limit as 1 - exp(-t / tau), by steps."""
    node = alone(card({"limiter_s": 0.2, "leakage_per_c": 0.0}))
    node.set_load(0, 1.0, 0.0, 0.0)
    node.advance(20 * S)
    node.set_limit(0, 200_000)
    node.advance(10 * S)
    low = now(node)["clock_mhz"]
    node.set_limit(0, 1_000_000)
    for ms in (50, 150, 400):
        node.advance(30 * S + ms * MS - node.now_ns)
        expected = 1800 + (low - 1800) * math.exp(-ms / 200)
        assert now(node)["clock_mhz"] == pytest.approx(expected, abs=16), ms


def test_work_follows_the_clock_as_far_as_it_is_not_bound() -> None:
    for compute, bound, clock in ((1.0, 0.0, 900), (1.0, 1.0, 300), (0.5, 0.25, 600)):
        node = alone(card())
        node.lock_clocks(0, clock, clock)
        node.advance(1 * MS)
        node.set_load(0, compute, 0.0, bound)
        node.advance(10 * S)
        slow = bound + (1 - bound) * 1800 / clock
        whole = compute * slow + 1 - compute
        assert now(node)["throughput"] == pytest.approx(compute / whole)
        assert now(node)["busy"] == pytest.approx(compute * slow / whole)
        assert now(node)["work"] == pytest.approx(10 * compute / whole, rel=1e-3)


def test_heat_lowers_the_clock_and_holds_the_die_below_the_slowdown() -> None:
    node = alone(card({"thermal_c_per_w": 0.12, "capacity_j_per_c": 300.0}))
    node.set_load(0, 1.0, 1.0, 0.0)
    node.advance(400 * S)
    state = now(node)
    assert 85 < state["die_c"] < 92
    assert state["clock_mhz"] < 1800
    assert state["why"] == 1 << 2
    assert state["why_ns"][2] > 300 * S


def test_past_the_shutdown_temperature_a_card_is_lost() -> None:
    node = alone(card())
    node.inject("heat", 0, value=75_000)
    node.advance(200 * S)
    assert now(node)["state"] == 1
    assert node.sensor(0) is None


def test_the_power_brake_halves_the_clock() -> None:
    node = alone(card())
    node.set_load(0, 1.0, 0.0, 0.0)
    node.advance(S)
    node.inject("brake", 0, until_ns=3 * S)
    node.advance(S)
    assert now(node)["clock_mhz"] == 900
    assert now(node)["why"] == 1 << 4
    node.advance(2 * S)
    assert now(node)["clock_mhz"] == 1800
    assert now(node)["why_ns"][4] == pytest.approx(2 * S, abs=2 * MS)


def test_a_fan_turns_up_and_cools() -> None:
    """Without it the same load would end 0.06 / 0.4 = 0.15 C/W above the air."""
    node = alone(card({"fan_min": 0.4}))
    node.set_load(0, 1.0, 1.0, 0.0)
    node.advance(300 * S)
    state = now(node)
    assert 0.3 < state["fan"] <= 1
    cooling = (0.4 + 0.6 * state["fan"]) / 0.06
    assert state["die_c"] == pytest.approx(25 + state["power_w"] / cooling, abs=0.2)


def random_card(chance: random.Random) -> dict[str, Any]:
    return card(
        {
            "exponent": chance.uniform(2, 3),
            "leakage_w": chance.uniform(10, 40),
            "thermal_c_per_w": chance.uniform(0.04, 0.15),
            "capacity_j_per_c": chance.uniform(100, 400),
            "limiter_s": chance.uniform(0.02, 0.2),
            "fan_min": chance.uniform(0.4, 1),
        },
        limit_default_mw=chance.randrange(250_000, 700_000),
    )


class Oracle:
    """A card in steps of a millisecond, each by Euler's rule, knowing nothing clever."""

    def __init__(self, model: dict[str, Any], state: dict[str, Any]) -> None:
        self.model, self.physics = model, model["physics"]
        self.die, self.fan, self.mhz, self.cap = state["die_c"], 0.0, 300.0, 1800.0
        self.joules, self.work, self.heat, self.t = 0.0, 0.0, 1800.0, 0
        self.known, self.cold = (0.0, 0.0, 0.0), dict[int, float]()

    def grid(self, mhz: float) -> float:
        steps = max(round((1800 - mhz) / 15), 0)
        return max(1800 - 15 * steps, 300)

    def power(self, load: tuple[float, float, float], mhz: float) -> float:
        return _sim.power_at(self.model, *load, mhz, self.die)

    def wanted(self, load: tuple[float, float, float]) -> float:
        limit = self.model["limit_default_mw"] / 1000
        if load != self.known:  # power at no temperature, of each clock
            self.known = load
            self.cold = {m: _sim.power_at(self.model, *load, m, 0.0) for m in range(1800, 285, -15)}
        warm = self.physics["leakage_w"] * self.physics["leakage_per_c"] * self.die
        return max((mhz for mhz, cold in self.cold.items() if cold + warm <= limit), default=300)

    def step(self, load: tuple[float, float, float]) -> None:
        if load[0] == 0 and load[1] == 0:
            wanted, self.mhz = 1800.0, 300.0
        else:
            wanted = self.wanted(load)
            self.mhz = min(self.grid(self.cap), self.heat)
        power = self.power(load, self.mhz)
        self.joules += power * 1e-3
        self.work += _sim.work_at(self.model, *load, self.mhz) * 1e-3
        p = self.physics
        cooling = (p["fan_min"] + (1 - p["fan_min"]) * self.fan) / p["thermal_c_per_w"]
        self.die += (power - cooling * (self.die - 25)) / p["capacity_j_per_c"] * 1e-3
        self.cap += (wanted - self.cap) * 1e-3 / p["limiter_s"]
        self.t += 1
        if self.t % 100 == 0:
            full = min(max((self.die - 50) / 30, 0), 1)
            self.fan += (full - self.fan) * 0.05
            over = max((self.die - 85) / 7, 0)
            self.heat = 1800.0 if over <= 0 else self.grid(1800 - over * 1500)


@pytest.mark.parametrize("seed", range(4))
def test_a_dumb_oracle_agrees(seed: int) -> None:
    chance = random.Random(seed)
    model = random_card(chance)
    node = alone(model)
    oracle = Oracle(model, now(node))
    for _ in range(6):
        load = (chance.choice([0.0, 0.6, 1.0]), chance.random(), chance.random())
        node.set_load(0, *load)
        for _ in range(chance.randrange(100, 500)):
            oracle.step(load)
        node.advance(oracle.t * MS - node.now_ns)
        state = now(node)
        assert state["die_c"] == pytest.approx(oracle.die, abs=0.15)
        assert state["energy_j"] == pytest.approx(oracle.joules, rel=0.01)
        assert state["work"] == pytest.approx(oracle.work, rel=0.01, abs=0.01)


@pytest.mark.parametrize("seed", range(6))
def test_cuts_of_a_move_change_nothing(seed: int) -> None:
    chance = random.Random(seed)
    model = random_card(chance)
    whole, cut = alone(model), alone(model)
    for _ in range(8):
        load = (chance.choice([0.0, 0.5, 1.0]), chance.random(), chance.random())
        span = chance.randrange(1, 20 * S)
        whole.set_load(0, *load)
        cut.set_load(0, *load)
        whole.advance(span)
        for at in [*sorted(chance.randrange(span) for _ in range(30)), span]:
            cut.advance(at - (span - (whole.now_ns - cut.now_ns)))
        assert whole.now_ns == cut.now_ns
        assert whole.sensor(0).keys() == cut.sensor(0).keys()
        for key, value in now(whole).items():
            other = now(cut)[key]
            if isinstance(value, float):
                assert other == pytest.approx(value, rel=2e-3, abs=1e-3), key


@pytest.mark.parametrize("seed", range(4))
def test_what_goes_on_evenly_is_skipped_and_comes_out_the_same(seed: int) -> None:
    chance = random.Random(seed)
    model = random_card(chance)
    whole, cut = alone(model), alone(model)
    for load in ((1.0, 0.5, 0.2), (0.0, 0.0, 0.0), (0.6, 0.0, 0.9)):
        whole.set_load(0, *load)
        cut.set_load(0, *load)
        whole.advance(1200 * S)
        for _ in range(240):
            cut.advance(5 * S)
        for key, value in now(whole).items():
            if isinstance(value, float):
                assert now(cut)[key] == pytest.approx(value, rel=2e-3, abs=1e-3), key
        one, other = whole.sensor(0), cut.sensor(0)
        assert one and other
        assert one["power_mw"] == pytest.approx(other["power_mw"], rel=2e-3)
        assert one["energy_mj"] == pytest.approx(other["energy_mj"], rel=2e-3)


def test_an_idle_hour_is_one_step() -> None:
    """Energy of a card at rest is its power times the time, in however many moves."""
    node = alone(card())
    watts = now(node)["power_w"]
    node.advance(3600 * S)
    assert now(node)["energy_j"] == pytest.approx(3600 * watts)
    assert now(node)["why_ns"][0] == 3600 * S


def test_traffic_is_in_proportion_to_work() -> None:
    node = alone(card(links=4, link_gb_s=25, link_group=1))
    node.inject("link", 0, from_ns=10 * S, value=2)
    node.set_load(0, 1.0, 0.0, 0.0)
    node.advance(20 * S)
    state = now(node)
    assert state["link_tx_bytes"][0] == pytest.approx(25e9 * 0.3 * state["work"])
    assert state["link_tx_bytes"][2] == pytest.approx(state["link_tx_bytes"][0] / 2, rel=1e-2)
    assert state["link_tx_bytes"][4] == 0
    assert state["pcie_rx_bytes"] > state["pcie_tx_bytes"] > 0


def test_limits_and_clocks_out_of_range_are_refused() -> None:
    node = alone(card())
    for mw in (99_999, 1_000_001, 0):
        with pytest.raises(ValueError, match="range"):
            node.set_limit(0, mw)
    for low, high in ((1900, 2000), (500, 400), (0, 200)):
        with pytest.raises(ValueError, match="range"):
            node.lock_clocks(0, low, high)
    node.lock_clocks(0, 0, 1000)
    node.lock_clocks(0, 0, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"clock_step_mhz": 0},
        {"limit_min_mw": 2_000_000},
        {"target_c": 95},
        {"physics": {"thermal_c_per_w": 0.0}},
        {"physics": {"leakage_w": 1e6}},
        {"physics": {"ambient_c": math.nan}},
        {"physics": {"dynamic_w": math.inf}},
        {"sensor": {"period_ns": 0}},
        {"pcie_gen": 40},
        {"links": 19},
    ],
)
def test_what_is_no_card_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        alone(card(**wrong))


def test_unknown_members_are_refused_by_name() -> None:
    with pytest.raises(KeyError, match="colour"):
        alone(card(colour=3))
    with pytest.raises(TypeError, match="units"):
        alone(card(units="many"))
