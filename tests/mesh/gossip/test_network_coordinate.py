# SPDX-License-Identifier: Apache-2.0
"""Round-trip times from coordinates: an estimate, or unknown."""

from __future__ import annotations

import math

import pytest

from stoker.mesh.gossip.network_coordinate import ERROR_MAX, round_trip_s
from stoker.mesh.gossip.serf_records import SerfCoordinate


def at(x: float, y: float = 0.0, **other: float) -> SerfCoordinate:
    values = {"error": 0.1, "adjustment": 0.0, "height": 0.0, **other}
    return SerfCoordinate([x, y], **values)


def test_the_time_is_the_distance_and_both_heights() -> None:
    found = round_trip_s(at(0.003, height=0.0005), at(0.0, 0.004, height=0.0005))
    assert found == pytest.approx(0.006)


def test_adjustments_count_unless_they_leave_nothing() -> None:
    assert round_trip_s(at(0.0, adjustment=0.001), at(0.002)) == pytest.approx(0.003)
    assert round_trip_s(at(0.0, adjustment=-0.005), at(0.002)) == pytest.approx(0.002)


@pytest.mark.parametrize(
    "other",
    [
        None,
        at(0.0, error=ERROR_MAX),
        at(0.0, error=1.5),
        at(0.0, error=math.nan),
        at(0.0, error=-1.0),
        SerfCoordinate([0.0], 0.1, 0.0, 0.0),
        SerfCoordinate(None, 0.1, 0.0, 0.0),
        at(math.inf),
        at(math.nan),
        at(0.0, height=-1.0),
    ],
)
def test_what_is_no_good_coordinate_gives_no_time(other: SerfCoordinate | None) -> None:
    assert round_trip_s(at(0.0), other) is None
    assert round_trip_s(other, at(0.0)) is None
