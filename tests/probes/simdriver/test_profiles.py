# SPDX-License-Identifier: Apache-2.0
"""Profiles of simulated nodes are whole, and each card of them is somebody."""

from __future__ import annotations

import pytest

from stoker.native import _sim
from stoker.native.errors import NotFound
from stoker.probes.simdriver import profiles

NAMES = ["4xL40S", "4xMax1550", "8xA100-MIG", "8xH200", "8xMI300X", "mixed"]


def test_these_profiles_are_there() -> None:
    assert profiles.names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_names_every_figure_of_its_cards(name: str) -> None:
    """The node has no figure that the profile did not set, except those that may be absent."""
    node = profiles.node(name)
    for index, card in enumerate(profiles.load(name)):
        model = node.truth(index)["model"]
        for part in ("physics", "sensor"):
            assert set(card[part]) == set(model[part])
        assert set(model) - set(card) <= {"physics", "sensor"}
        assert {key: model[key] for key in card if key != "partitions"} == {
            key: value for key, value in card.items() if key != "partitions"
        }


@pytest.mark.parametrize("name", NAMES)
def test_cards_are_told_apart(name: str) -> None:
    cards = profiles.load(name)
    for key in ("uuid", "serial", "bus_id"):
        assert len({card[key] for card in cards}) == len(cards), key
    for vendor in {card["vendor"] for card in cards}:
        minors = [card["minor"] for card in cards if card["vendor"] == vendor]
        assert minors == list(range(len(minors)))
    partitions = [part["uuid"] for card in cards for part in card.get("partitions", [])]
    assert len(set(partitions)) == len(partitions)


def test_a_seed_is_a_node() -> None:
    assert profiles.load("8xH200", 1) == profiles.load("8xH200", 1)
    assert profiles.load("8xH200", 1) != profiles.load("8xH200", 2)


def test_mixed_has_two_of_each() -> None:
    names = [card["name"] for card in profiles.load("mixed")]
    assert [names.count(name) for name in dict.fromkeys(names)] == [2, 2, 2, 2]
    assert {card["vendor"] for card in profiles.load("mixed")} == {1, 2, 3}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "mixed"])
def test_a_card_at_rest_and_at_work_is_plausible(name: str) -> None:
    """Full load draws near the limit and no more, and does not overheat a healthy card."""
    node = profiles.node(name)
    model = node.truth(0)["model"]
    limit = model["limit_default_mw"] / 1000
    assert 0.05 * limit < node.truth(0)["now"]["power_w"] < 0.25 * limit
    assert 28 < node.truth(0)["now"]["die_c"] < 50
    node.set_load(0, 1.0, 0.8, 0.0)
    node.advance(600 * 10**9)
    state = node.truth(0)["now"]
    assert 0.9 * limit < state["power_w"] <= limit
    assert state["die_c"] < model["target_c"]


def test_unknown_profiles_name_the_known() -> None:
    with pytest.raises(NotFound, match="8xH200"):
        profiles.node("9xZ1")
    with pytest.raises(NotFound):
        profiles.load("../8xH200")


def test_features_are_the_cores() -> None:
    assert sum(profiles.FEATURES.values()) == 127
    assert _sim.VARIABLE == "STOKER_SIM_NODE"
