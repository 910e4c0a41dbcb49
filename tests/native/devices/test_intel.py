# SPDX-License-Identifier: Apache-2.0
"""Power and errors of an Intel card by its tiles: the sum of all, or an absence."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.cards import device_program as built

UNSUPPORTED, FIRST, NONE, INCOMPLETE = 0x78000003, -2, -5, -7


@pytest.fixture(scope="module")
def intel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built.program("intel.c", tmp_path_factory.mktemp("intel"))


def test_two_tiles_add_up_each_by_its_own_clock(intel: Path) -> None:
    """The third domain is on a tile that has a domain already, so it is a part of that one."""
    found = built.said(intel, "2", "0", "0", "1", "1")
    assert found["first"] == f"zesPowerGetEnergyCounter {FIRST}"
    assert found["power"] == f"{200 + 100} 150000"
    assert found["energy"] == "45 0"


def test_the_domain_of_the_whole_card_is_taken_alone(intel: Path) -> None:
    assert built.said(intel, "2", "0", "0", "card", "1")["energy"] == "24 0"


def test_what_a_tile_does_not_tell_is_absent_of_the_card(intel: Path) -> None:
    found = built.said(intel, "2", "2", "0", "1")
    for name in ("power", "energy"):
        assert found[name] == f"zesPowerGetEnergyCounter {UNSUPPORTED}"


def test_a_tile_without_a_domain_leaves_the_card_without_power(intel: Path) -> None:
    lacking = built.said(intel, "2", "0", "0")
    assert lacking["power"] == f"zesDeviceEnumPowerDomains {INCOMPLETE}"
    assert built.said(intel, "0", "0")["power"] == f"zesDeviceEnumPowerDomains {NONE}"


def test_errors_of_all_tiles_are_counted_and_what_programs_do_wrong_is_not(intel: Path) -> None:
    found = built.said(intel, "1", "0", "card")
    assert found["corrected"] == f"{1 + 2 + 4 + 8} 0"
    assert found["uncorrected"] == f"{10 + 20 + 40 + 100} 0"


def test_a_function_that_the_loader_lacks_is_not_supported(intel: Path) -> None:
    found = built.said(intel, "1", "0", "card")
    assert found["memory"] == f"zesDeviceEnumMemoryModules {UNSUPPORTED}"
