# SPDX-License-Identifier: Apache-2.0
"""Samples as bytes of the core: what is unknown, what is rounded, and what is beyond a field."""

from __future__ import annotations

import pytest

from stoker.scheduler.hints import Sample
from stoker.scheduler.wire_hints import SampleRecord


def told(sample: Sample) -> Sample:
    (record,) = SampleRecord.unpack_all(sample.pack())
    return Sample.of_record(record)


@pytest.mark.parametrize(
    "name", ["power_w", "temperature_c", "limit_c", "busy", "cap_w", "clock", "memory"]
)
@pytest.mark.parametrize("value", [0.0, 0.25, 1.0])
def test_each_figure_is_told_by_itself_and_zero_is_no_absence(name: str, value: float) -> None:
    one = Sample(7)._replace(**{name: value})
    assert told(one) == one


@pytest.mark.parametrize("name", ["slowed", "warned", "stale"])
def test_each_flag_is_told_by_itself(name: str) -> None:
    one = Sample(7)._replace(**{name: True})
    assert told(one) == one


def test_figures_are_rounded_to_thousandths_and_parts_to_millionths() -> None:
    found = told(Sample(1, power_w=93.00049, temperature_c=-3.4996, busy=0.12345678))
    assert (found.power_w, found.temperature_c, found.busy) == (93.0, -3.5, 0.123457)


@pytest.mark.parametrize(
    ("name", "value", "nearest"),
    [
        ("power_w", -1.0, 0.0),
        ("power_w", 1e12, (2**32 - 1) / 1000),
        ("cap_w", 1e12, (2**32 - 1) / 1000),
        ("temperature_c", -1e12, -(2**31) / 1000),
        ("limit_c", 1e12, (2**31 - 1) / 1000),
        ("busy", 1.5, 1.0),
        ("clock", -0.5, 0.0),
        ("memory", 2.0, 1.0),
    ],
)
def test_what_is_beyond_a_field_is_its_nearest_value(
    name: str, value: float, nearest: float
) -> None:
    """One figure out of range changes no other one."""
    others = {"limit_c": 90.0, "busy": 0.5, "cap_w": 300.0} | {name: value}
    found = told(Sample(1)._replace(**others))
    assert found == Sample(1)._replace(**others | {name: nearest})
