# SPDX-License-Identifier: Apache-2.0
"""Scripts of faults on a simulated node: what begins ends, once, and where it was aimed."""

from __future__ import annotations

import pytest
from fakes.cards.simulated_card import MS, S, alone, card

from stoker.agent.health.xids import XIDS
from stoker.native import _sim
from stoker.native.errors import BadRequest, Refused
from stoker.probes.simdriver import profiles

LOST, NEEDS_RESET = 1, 2


def three() -> _sim.Node:
    return _sim.Node.create(None, [card(uuid=f"GPU-{i}", links=4) for i in range(3)], True, 1)


def state(node: _sim.Node, index: int, key: str) -> int:
    value: int = node.truth(index)["now"][key]
    return value


def test_every_kind_has_a_name() -> None:
    kinds = _sim.fault_kinds()
    assert len(set(kinds)) == len(kinds) == 18
    node = three()
    with pytest.raises(ValueError, match="no such fault"):
        node.inject("rust")


def test_a_lost_card_comes_back_reset() -> None:
    node = three()
    node.inject("ecc", 1, value=1, count=3)
    node.add_process(1, 77, 2**30, 1.0, "train")
    node.inject("lost", 1, from_ns=2 * S, until_ns=3 * S)
    node.advance(2500 * MS)
    assert [node.sensor(i) is None for i in range(3)] == [False, True, False]
    node.advance(S)
    assert node.sensor(1) is not None
    assert state(node, 1, "resets") == 1
    assert state(node, 1, "ecc_uncorrected") == 0
    assert state(node, 1, "ecc_uncorrected_total") == 3
    assert node.truth(1)["processes"] == []


def test_xids_that_need_a_reset_get_one() -> None:
    """Those that NVIDIA's catalogue resolves so, each until the card is reset; no other does."""
    wanted = {each.number for each in XIDS.values() if each.advice == "RESET_GPU"}
    assert len(wanted) > 10
    for number in range(1, 173):
        node = alone(card(vendor=profiles.NVIDIA))
        node.set_load(0, 1, 0, 0)
        node.inject("xid", 0, value=number)
        node.advance(S)
        lost, waits = (state(node, 0, "state") == code for code in (LOST, NEEDS_RESET))
        assert (lost, waits) == (number == 79, number in wanted), number
        assert (state(node, 0, "busy") == 0) == (lost or waits)
        assert (node.sensor(0) is None) == (lost or waits)
        assert state(node, 0, "recovery") == waits
        node.inject("reset", 0, from_ns=2 * S)
        node.advance(2 * S)
        assert (state(node, 0, "state"), state(node, 0, "recovery")) == (0, 0)
        assert state(node, 0, "busy") == 1


def test_xids_are_nvidias() -> None:
    for vendor in (profiles.AMD, profiles.INTEL):
        node = alone(card(vendor=vendor))
        node.inject("xid", 0, value=95)
        node.advance(1)
        assert state(node, 0, "state") == 0


def test_events_are_spread_and_numbered_and_the_newest_kept() -> None:
    node = three()
    node.inject("xid", 2, from_ns=S, until_ns=3 * S, value=31, count=4)
    node.advance(10 * S)
    told = [(e["number"], e["at_ns"], e["card"], e["value"]) for e in node.events()]
    assert told == [(n + 1, S + n * S // 2, 2, 31) for n in range(4)]
    node.inject("xid", 0, value=13, count=10_000)
    node.advance(1)
    assert node.describe()["events"] == 10_004
    numbers = [e["number"] for e in node.events()]
    assert numbers == list(range(10_004 - 255, 10_005))


def test_one_fault_on_every_card() -> None:
    node = three()
    node.inject("ecc", value=0)
    node.advance(1)
    assert [state(node, i, "ecc_corrected") for i in range(3)] == [1, 1, 1]


def test_a_link_goes_down_and_comes_back() -> None:
    node = three()
    node.inject("link", 0, from_ns=S, until_ns=2 * S, value=3)
    node.inject("link", 0, from_ns=S, value=1, count=7)
    node.advance(1500 * MS)
    assert state(node, 0, "link_down") == 1 << 3
    assert node.truth(0)["now"]["link_errors"][1] == 7
    node.advance(S)
    assert state(node, 0, "link_down") == 0


def test_pages_and_rows() -> None:
    node = three()
    node.inject("pages", 0, value=1, count=2)
    node.advance(1)
    keys = ("retired_pages", "retired_pending", "remapped_rows", "remap_pending", "remap_failed")
    assert [state(node, 0, key) for key in keys] == [2, 1, 2, 1, 1]
    node.reset(0)
    assert [state(node, 0, key) for key in keys] == [2, 0, 2, 0, 1]


def test_packets_sent_again_are_counted() -> None:
    node = three()
    node.inject("pcie", 2, until_ns=S, count=40)
    node.advance(S // 2)
    assert state(node, 2, "pcie_replays") == 21  # the first comes at once
    node.advance(S)
    assert [state(node, i, "pcie_replays") for i in range(3)] == [0, 0, 40]


def test_heat_and_recovery_are_given_back() -> None:
    node = three()
    node.inject("heat", 0, until_ns=S, value=10_000)
    node.inject("recovery", 0, until_ns=S, value=2)
    node.advance(500 * MS)
    assert (state(node, 0, "ambient_rise_c"), state(node, 0, "recovery")) == (10, 2)
    node.advance(S)
    assert (state(node, 0, "ambient_rise_c"), state(node, 0, "recovery")) == (0, 0)


def test_healing_ends_what_is_on_and_what_is_to_come() -> None:
    node = three()
    node.inject("brake", 0)
    node.inject("stuck", 1)
    node.inject("lost", 2, from_ns=5 * S)
    node.advance(S)
    node.heal()
    node.advance(10 * S)
    assert [state(node, i, "state") for i in range(3)] == [0, 0, 0]
    assert state(node, 0, "brakes") == 0


def test_dropped_readings_are_as_many_as_said_and_the_same_for_a_seed() -> None:
    def dropped(seed: int) -> list[bool]:
        node = alone(card(), seed)
        node.inject("drop", 0, value=250)
        node.advance(1)
        return [node.sensor(0) is None for _ in range(2000)]

    assert dropped(1) == dropped(1) != dropped(2)
    assert 400 < sum(dropped(1)) < 600


def test_a_fault_is_of_the_calls_it_names() -> None:
    node = alone(card())
    node.inject("permission", 0, call="Temperature")
    node.advance(1)
    assert node.sensor(0) is not None
    node.inject("permission", 0, call="sens")
    node.advance(1)
    assert node.sensor(0) is None


def test_slow_calls_take_virtual_time() -> None:
    node = alone(card())
    node.set_latency(1000)
    node.inject("slow", 0, until_ns=S, value=5 * MS)
    node.advance(1)
    before = node.now_ns
    node.sensor(0)
    assert node.now_ns - before == 5 * MS + 1000


def test_the_script_is_bounded_and_checked() -> None:
    node = three()
    for wrong in ({"card": 3}, {"until_ns": 1, "from_ns": 2}):
        with pytest.raises(BadRequest):
            node.inject("lost", **wrong)
    with pytest.raises(ValueError, match="too long"):
        node.inject("lost", 0, call="x" * 48)
    for _ in range(64):
        node.inject("xid", 0, from_ns=S)
    with pytest.raises(Refused):
        node.inject("xid", 0, from_ns=S)
    node.advance(2 * S)  # what is over makes room
    node.inject("xid", 0)
