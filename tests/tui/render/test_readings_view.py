# SPDX-License-Identifier: Apache-2.0
"""Readings as text: units, errors, reasons, axes, and the SIM mark."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.tui.render import readings_view


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ({"value": 71.3, "unit": "W", "error": 3.6}, "71.3 W +-3.6 W"),
        ({"value": 71.3, "unit": "W", "window_ns": 25_000_000}, "71.3 W over 25 ms"),
        ({"value": 1_980_000_000, "unit": "Hz"}, "1980 MHz"),
        ({"value": 3 << 30, "unit": "B"}, "3 GiB"),
        ({"value": True}, "yes"),
        ({"value": []}, "none"),
        ({"value": ["power limit", "thermal"]}, "power limit, thermal"),
        ({"value": [{"up": True}, {"up": False}]}, "1 of 2 up"),
        (
            {"value": [{"pid": 7, "name": "x", "memory_bytes": 1024, "busy_ratio": 0.5}]},
            "1: 7 x 1 KiB 50 %",
        ),
        (
            {"value": [{"t_ns": 1, "value": 70.0}, {"t_ns": 2, "value": 71.5}], "unit": "W"},
            "2 samples, 70.0 W to 71.5 W",
        ),
        ({"absent": "no sensor"}, "- (no sensor)"),
        ({"value": "Hopper"}, "Hopper"),
        ({"value": 1_500_000, "unit": "ns"}, "1.50 ms"),
    ],
)
def test_a_field_has_its_unit_its_error_or_its_reason(field: dict[str, Any], says: str) -> None:
    assert readings_view.value(field) == says


def view(**more: Any) -> dict[str, Any]:
    t_ns = 100_000_000_000
    return {
        "node": "n",
        "device": "GPU-1",
        "t_ns": t_ns,
        "state": "ok",
        "sim": True,
        "fields": {
            "power_w": {"value": 350.0, "unit": "W"},
            "power_limit_w": {"value": 700.0, "unit": "W"},
            "busy_ratio": {"value": 0.5, "unit": "1"},
            "clock_hz": {"absent": "not supported"},
        },
        "history": {
            "power_w": [[t_ns - 30_000_000_000, 700.0], [t_ns, 350.0]],
            "busy_ratio": [[t_ns, 0.5]],
        },
    } | more


def test_a_series_has_axes_and_its_newest_value() -> None:
    shown = readings_view.series(view(), columns=readings_view.AROUND + 50).splitlines()
    busy, power, heat, clock, *_, scale = shown
    assert "0 % |" in busy and "| 100 %" in busy and busy.endswith("now 50 %")
    assert "0.0 W |         █         ▅| 700.0 W   now 350.0 W" in power
    assert heat.endswith("- (it is not read from this device)")
    assert clock.endswith("- (not supported)")
    assert "60 s ago" in scale and scale.index("|") == power.index("|")


def test_on_a_narrow_terminal_values_lose_their_errors_before_lines_wrap() -> None:
    power = {"value": 350.0, "unit": "W", "error": 17.5, "window_ns": 25_000_000}
    wide, narrow = (
        readings_view.series(
            view(fields=view()["fields"] | {"power_w": power}), columns=columns
        ).splitlines()
        for columns in (100, 80)
    )
    assert wide[1].endswith("now 350.0 W +-17.5 W over 25 ms")
    assert narrow[1].endswith("now 350.0 W")
    assert max(map(len, narrow)) <= 80 and max(map(len, wide)) <= 100


def test_a_device_without_any_sensor_has_no_scale() -> None:
    shown = readings_view.series(view(fields={}, history={}))
    assert "60 s ago" not in shown and len(shown.splitlines()) == len(readings_view.SERIES)


def test_what_is_simulated_or_in_trouble_is_said_at_the_top() -> None:
    assert readings_view.heading(view(), "H200") == "n/GPU-1  H200  SIM"
    hung = readings_view.heading(view(state="hung", why="hung call x", sim=False), "H200")
    assert hung == "n/GPU-1  H200  hung: hung call x"


def test_a_name_from_outside_moves_no_cursor() -> None:
    assert "\x1b" not in readings_view.heading(view(), "\x1b[2J")
    row = {"value": [{"pid": 1, "name": "\x1b[2J"}]}
    assert "\x1b" not in readings_view.fields(view(fields={"processes": row}))
