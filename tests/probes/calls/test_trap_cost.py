# SPDX-License-Identifier: Apache-2.0
"""The price of a hit: measured here, kept for this boot, believed only if it makes sense."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.native.errors import NotSupported
from stoker.probes.calls import trap_cost
from stoker.probes.calls.trap_cost import (
    ELSEWHERE,
    TrapCosts,
    boot_id,
    known_costs,
    load,
    measure,
    save,
)
from tests.probes.groups import require_root

HERE = TrapCosts({"push": 640, "other": 14_000}, {"push": 400, "other": 13_900}, "x", boot_id())


@pytest.mark.needs_bpf
def test_emulated_sites_cost_a_fraction_of_stepped_ones() -> None:
    require_root()
    costs = measure()
    for prices in (costs.both_ns, costs.entry_ns):
        cheap = max(prices[trap] for trap in ("nop5", "push", "nop1", "branch"))
        assert all(100 < ns < 1_000_000 for ns in prices.values())
        assert cheap * 2 < min(prices["endbr64"], prices["other"])
    assert all(costs.entry_ns[trap] < costs.both_ns[trap] * 1.5 for trap in costs.both_ns)
    assert costs.boot_id == boot_id() != ""


def test_they_are_kept_for_this_boot(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    save(path, HERE)
    kept = load(path)
    assert kept is not None
    assert (kept.both_ns, kept.entry_ns) == (HERE.both_ns, HERE.entry_ns)
    assert kept.hit_ns("push", entry_only=True) == 400
    assert kept.hit_ns("nop5", entry_only=False) is None
    assert [each.name for each in tmp_path.iterdir()] == ["costs.json"]


@pytest.mark.parametrize(
    "change",
    [
        {"boot_id": "another"},
        {"format": 2},
        {"both_ns": {"push": -5}},
        {"both_ns": {"push": 10**12}},
        {"both_ns": {"push": "640"}},
        {"both_ns": {}},
        {"both_ns": [1, 2]},
        {"entry_ns": None},
    ],
)
def test_another_boot_and_damage_are_not_believed(
    tmp_path: Path, change: dict[str, object]
) -> None:
    path = tmp_path / "costs.json"
    save(path, HERE)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert load(path) is None
    path.write_text("{")
    assert load(path) is None
    path.write_text("[]")
    assert load(path) is None


def test_measured_once_a_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []
    monkeypatch.setattr(trap_cost, "measure", lambda: measured.append(1) or HERE)
    path = tmp_path / "costs.json"
    assert known_costs(path).both_ns == known_costs(path).both_ns == HERE.both_ns
    assert len(measured) == 1


def test_where_nothing_can_be_measured_figures_of_elsewhere_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> TrapCosts:
        raise NotSupported("no uprobes here")

    monkeypatch.setattr(trap_cost, "measure", refuse)
    costs = known_costs(tmp_path / "costs.json")
    assert costs.both_ns == ELSEWHERE.both_ns
    assert "elsewhere" in costs.source
    assert "no uprobes here" in costs.source
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_costs_only_the_keeping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trap_cost, "measure", lambda: HERE)
    assert known_costs(tmp_path / "nowhere" / "costs.json") == HERE
