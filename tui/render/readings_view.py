# SPDX-License-Identifier: Apache-2.0
"""Readings of devices as text: values with units and errors, and series as sparklines.

Pure: replies of the mesh in, text out. Every form marks a simulated device as SIM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stoker.mesh.wire.schema import DeviceView
from stoker.tui.render import sparkline, text, units

Row = Mapping[str, Any]
LABEL_WIDTH = 24
TITLE_WIDTH = 19
SERIES_WIDTH = 60
"""The most cells of a series; each then stands for a second of the minute."""
SERIES_LEAST = 10
AROUND = TITLE_WIDTH + len("    0.0 W |") + len("| 1980 MHz  now ")
"""The cells of a line of `series` beside the drawn values and the newest one."""
NOW_WIDTH, NOW_LEAST = 30, 9
"""The cells for the newest value, with and without its error and window."""
MINUTE_NS = 60_000_000_000


class Series(NamedTuple):
    """One line of `stoker metrics`: a field, with the ends of its axis where they are known."""

    field: str
    title: str
    floor: float | None = None
    top: str | None = None
    """The upper end of the axis: the name of a field, or a number."""


SERIES: tuple[Series, ...] = (
    Series("busy_ratio", "busy", 0, "1"),
    Series("power_w", "power", 0, "power_limit_w"),
    Series("temperature_c", "temperature", None, "temperature_slowdown_c"),
    Series("clock_hz", "clock", 0, "clock_max_hz"),
    Series("memory_busy_ratio", "memory busy", 0, "1"),
    Series("memory_temperature_c", "memory temperature", None, "memory_temperature_max_c"),
    Series("energy_power_w", "power by energy", 0, "power_limit_w"),
)
FIELDS = tuple(series.field for series in SERIES)


def value(field: Row) -> str:
    """One field: `71.3 W +-3.6`, `1980 MHz`, or the reason why it is absent."""
    if field.get("absent"):
        return f"- ({field['absent']})"
    found = field.get("value")
    shown = quantity(found, str(field.get("unit") or ""))
    error = field.get("error")
    if error is not None and isinstance(found, int | float):
        shown += f" +-{quantity(error, str(field.get('unit') or ''))}"
    if field.get("window_ns"):
        shown += f" over {units.duration(field['window_ns'])}"
    return shown


def quantity(found: Any, unit: str) -> str:  # noqa: PLR0911
    """A value with its unit, scaled for reading."""
    if isinstance(found, bool):
        return "yes" if found else "no"
    if isinstance(found, list):
        return _listed(found, unit)
    if not isinstance(found, int | float):
        return str(found)
    if unit == "B":
        return units.size(found)
    if unit == "ns":
        return units.duration(found)
    if unit == "Hz":
        return f"{found / 1e6:.0f} MHz"
    if unit == "1" or not unit:
        return f"{found:.3g}" if isinstance(found, float) and found < 1000 else f"{found:,.0f}"
    return f"{found:.1f} {unit}"


def _listed(found: Sequence[Any], unit: str) -> str:
    if not found:
        return "none"
    if all(isinstance(each, Mapping) and "value" in each for each in found):
        values = [each["value"] for each in found]
        span = f"{quantity(min(values), unit)} to {quantity(max(values), unit)}"
        return f"{len(found)} samples, {span}"
    if all(isinstance(each, str) for each in found):
        return ", ".join(found)
    if all(isinstance(each, Mapping) and "up" in each for each in found):
        up = sum(bool(each["up"]) for each in found)
        return f"{up} of {len(found)} up"
    if all(isinstance(each, Mapping) and "t_ns" in each for each in found):
        return f"{len(found)} samples, the newest {found[-1]['value']:.4g}"
    return f"{len(found)}: " + "; ".join(_thing(each) for each in found)


def _thing(each: Any) -> str:
    if not isinstance(each, Mapping):
        return str(each)
    words = [str(each[key]) for key in ("pid", "name", "profile", "uuid") if each.get(key)]
    if each.get("memory_bytes") is not None:
        words.append(units.size(each["memory_bytes"]))
    if each.get("busy_ratio") is not None:
        words.append(f"{each['busy_ratio'] * 100:.0f} %")
    return " ".join(words)


def fields(view: Row) -> str:
    """All fields of one device, one per line."""
    lines = [
        f"{text.fit(name, LABEL_WIDTH)}  {text.clean(value(field))}"
        for name, field in view["fields"].items()
    ]
    return "\n".join(lines) + "\n"


def health(device: DeviceView) -> str:
    """The reasons why a device gets no jobs, and its warning, one per line."""
    told = (
        ("no jobs", device.unavailable),
        ("cordoned", device.cordoned),
        ("warning", device.warning),
    )
    return "".join(f"{what}: {text.clean(why)}\n" for what, why in told if why)


def heading(view: Row, model: str) -> str:
    """A device's node, id and model, the SIM mark, and the driver's state unless it is ok."""
    words = [f"{view['node']}/{view['device']}", model]
    if view.get("sim"):
        words.append("SIM")
    if view.get("state") != "ok":
        words.append(f"{view['state']}: {view.get('why')}")
    return text.clean("  ".join(word for word in words if word))


def series(view: Row, *, columns: int = 140, unicode: bool = True) -> str:
    """The past minute of some fields, each with its axes and its newest value."""
    to_ns = max(
        (points[-1][0] for points in view["history"].values() if points), default=view["t_ns"]
    )
    whole = columns >= AROUND + SERIES_LEAST * 2 + NOW_WIDTH
    room = columns - AROUND - (NOW_WIDTH if whole else NOW_LEAST)
    width = max(SERIES_LEAST, min(SERIES_WIDTH, room))
    lines = [_line(view, each, to_ns, width, whole, unicode) for each in SERIES]
    if any("|" in line for line in lines):
        lines.append(f"{'':{TITLE_WIDTH + 9}} |{'60 s ago':<{width - 3}}now|")
    return "\n".join(lines) + "\n"


def _line(  # noqa: PLR0917
    view: Row, each: Series, to_ns: int, width: int, whole: bool, unicode: bool
) -> str:
    field = view["fields"].get(each.field) or {"absent": "it is not read from this device"}
    points = view["history"].get(each.field) or ()
    values = sparkline.buckets(points, to_ns - MINUTE_NS, to_ns + 1, width)
    ends = sparkline.bounds(values, each.floor, _top(view, each.top))
    title = text.fit(each.title, TITLE_WIDTH)
    if ends is None or field.get("absent"):
        return f"{title}{text.clean(value(field))}"
    low, high = (_end(end, str(field.get("unit") or "")) for end in ends)
    drawn = sparkline.line(values, *ends, unicode=unicode)
    return f"{title}{low:>9} |{drawn}| {high:<9} now {_now(field, whole)}"


def _top(view: Row, top: str | None) -> float | None:
    if top is None:
        return None
    found = view["fields"].get(top, {}).get("value")
    if found is None:
        return float(top) if top.isdecimal() else None
    return float(found)


def _end(end: float, unit: str) -> str:
    return f"{end * 100:.0f} %" if unit == "1" else quantity(end, unit)


def _now(field: Row, whole: bool) -> str:
    if field.get("unit") == "1" and isinstance(field.get("value"), int | float):
        return f"{field['value'] * 100:.0f} %"
    if not whole:
        return quantity(field.get("value"), str(field.get("unit") or ""))
    return value(field)
