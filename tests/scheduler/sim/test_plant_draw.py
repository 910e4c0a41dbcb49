# SPDX-License-Identifier: Apache-2.0
"""Drawn nodes: within their ranges, the same for the same seed, with jobs all through the run."""

from __future__ import annotations

from stoker.scheduler.sim import plant_draw, plant_ranges


def test_the_same_seed_is_the_same_node_and_another_is_not() -> None:
    assert plant_draw.draw_node(7) == plant_draw.draw_node(7)
    assert plant_draw.draw_node(7) != plant_draw.draw_node(8)


def test_what_is_drawn_is_within_its_range() -> None:
    for seed in range(20):
        for card in plant_draw.draw_node(seed):
            for name, drawn in {**card.physics, **card.sensor}.items():
                if name == "dynamic_w":
                    assert 300 < drawn < 800
                    continue
                range_ = {**plant_ranges.PHYSICS, **plant_ranges.SENSOR}[name]
                assert range_.low <= drawn <= range_.high, name
            times = [change.at_s for change in card.changes]
            assert times[0] == 0 and times == sorted(times) and times[-1] < plant_ranges.RUN_S
            assert all(0 <= share <= 1 for change in card.changes for share in change.load)


def test_every_range_has_a_source_or_says_that_it_is_assumed() -> None:
    tables = (plant_ranges.PHYSICS, plant_ranges.SENSOR, plant_ranges.PERTURBATIONS)
    for range_ in (each for table in tables for each in table.values()):
        assert range_.low <= range_.high and len(range_.source) > 10


def test_loads_are_found_by_time() -> None:
    card = plant_draw.draw_node(3)[0]
    for change in card.changes:
        assert plant_draw.load_at(card, change.at_s) == change.load
    assert plant_draw.breaks([card])[0] == 0
    trouble = plant_draw.draw_trouble(5, "lost_samples")
    assert 100 <= trouble.amount <= 300 and trouble == plant_draw.draw_trouble(5, "lost_samples")
