# SPDX-License-Identifier: Apache-2.0
"""The view `device`: a device's past minute as plots, then each reading with unit and error.

Pure. A gap in a plot is time without a reading, never a low value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stoker.mesh.wire.schema import DeviceView, ReadingsView
from stoker.tui.render import readings_view, sparkline, units
from stoker.tui.top.answers import Answers
from stoker.tui.top.lines import Line, Look, Piece, line, pairs, wrapped
from stoker.tui.top.marks import braille
from stoker.tui.top.view import View
from stoker.tui.top.views import words

MINUTE_NS = 60_000_000_000
PLOTTED = (("busy_ratio", "busy", 0.0), ("power_w", "power", 0.0), ("temperature_c", "heat", None))
"""(field, title, the lower end of its axis) of the plots, in their order."""
FIELDS = tuple(field for field, _, _ in PLOTTED)
AXIS = 16
"""The cells beside a plot for its title and the ends of its axis."""
LABEL = 26


def device_of(answers: Answers, subject: str) -> DeviceView | None:
    """Return the device that a subject `node:device` names; an index or a beginning will do."""
    node, _, name = subject.partition(":")
    found = [device for device in answers.devices or () if device.node == node]
    for match in (_is_whole, _is_index, _is_start):
        for device in found:
            if match(device, name):
                return device
    return None


def _is_whole(device: DeviceView, name: str) -> bool:
    return device.id == name


def _is_index(device: DeviceView, name: str) -> bool:
    return str(device.index) == name


def _is_start(device: DeviceView, name: str) -> bool:
    return bool(name) and device.id.startswith(name)


def _lines(answers: Answers, subject: str, look: Look) -> list[Line]:
    if answers.devices is None:
        return [words.absent("devices", answers.refused.get("devices", ""))]
    device = device_of(answers, subject)
    if device is None:
        return [line(f"there is no device {subject}: `:devices` lists them", "bad")]
    lines = [*_title(device, look)]
    view = answers.readings if answers.subject == subject else None
    if view is None:
        return [*lines, words.absent("readings", answers.refused.get("readings", ""))]
    if view.state != "ok":
        lines.append(line(f"{view.state}: {view.why}" if view.why else view.state, "warn"))
    return [*lines, *plots(view, look), *_readings(view, look)]


def _title(device: DeviceView, look: Look) -> list[Line]:
    sim = " SIM: a simulated device" if device.sim else ""
    lines: list[Line] = [(Piece(f"{device.model} ", "title"), Piece(device.id), Piece(sim, "warn"))]
    jobs = ",".join(map(str, device.jobs)) or "none of yours"
    lines.append(
        pairs((("node", f"{device.node}:{device.index}"), ("kind", _kind(device)),
               ("given", units.share(device.granted_milli)), ("jobs", jobs)))
    )  # fmt: skip
    sick = words.health(device)
    lines += wrapped("health ", sick, look.columns, "bad") if sick != "ok" else []
    return lines


def _kind(device: DeviceView) -> str:
    """Return what a device is; a CPU says that it is no GPU."""
    return {"CPU": "CPU, no GPU", "said": "declared, not probed"}.get(
        words.kind(device), words.kind(device)
    )


def plots(view: ReadingsView, look: Look) -> list[Line]:
    """Return the plots of the past minute, two or four lines high by the room there is."""
    height = 1 if look.rows < 18 else 2 if look.rows < 40 else 4
    lines: list[Line] = []
    for field, title, floor in PLOTTED:
        lines += _plot(view, (field, title, floor), look, height)
    return lines


def _plot(
    view: ReadingsView, plotted: tuple[str, str, float | None], look: Look, height: int
) -> list[Line]:
    field, title, floor = plotted
    found = view.fields.get(field)
    points = view.history.get(field) or ()
    room = max(10, look.columns - AXIS)
    if found is None or not points:
        why = (found.absent if found is not None else "") or "no reading of the past minute"
        return [(Piece(f"{title:<6}", "dim"), Piece(f"- ({why})"))]
    to_ns = points[-1][0] + 1
    values = held(sparkline.buckets(points, to_ns - MINUTE_NS, to_ns, room * 2))
    top = 1.0 if field == "busy_ratio" else _limit(view, field)
    ends = sparkline.bounds(values, floor, top)
    assert ends is not None
    drawn = _drawn(values, ends, look, height, room)
    high, low = (_end(end, found.unit) for end in (ends[1], ends[0]))
    labels = [high, *[""] * (height - 2), low][-height:] if height > 1 else [high]
    now = _end(points[-1][1], found.unit)
    return [
        (Piece(f"{title if not at else now if at == 1 else '':<6}", "dim"), Piece(f"{label:>8} "),
         Piece(drawn[at], "good"))
        for at, label in enumerate(labels)
    ]  # fmt: skip


def held(values: Sequence[float | None]) -> list[float | None]:
    """Fill a part of the minute that is shorter than two seconds with the value before it."""
    most = 2 * len(values) // 60
    made: list[float | None] = []
    last, age = None, 0
    for value in values:
        last, age = (value, 0) if value is not None else (last, age + 1)
        made.append(last if age <= most else None)
    return made


def _drawn(
    values: Sequence[float | None], ends: tuple[float, float], look: Look, height: int, room: int
) -> list[str]:
    if look.marks.braille:
        return braille(values, *ends, height)
    halves = [_mean(values[at : at + 2]) for at in range(0, room * 2, 2)]
    return [*[""] * (height - 1), sparkline.line(halves, *ends, unicode=False)]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _limit(view: ReadingsView, field: str) -> float | None:
    """Return the upper end of an axis: the limit of the card, where it says it."""
    name = {"power_w": "power_limit_w", "temperature_c": "temperature_slowdown_c"}.get(field, "")
    limit = view.fields.get(name)
    value = limit.value if limit is not None else None
    return float(value) if isinstance(value, int | float) else None


def _end(value: float, unit: str) -> str:
    return f"{value:.0%}" if unit == "1" else f"{value:.0f} {unit}".strip()


def _readings(view: ReadingsView, look: Look) -> list[Line]:
    """Return a line for each reading that is there, then what is absent with its reason."""
    present: list[Line] = []
    absent: dict[str, list[str]] = {}
    for name, field in view.fields.items():
        if field.absent:
            absent.setdefault(field.absent, []).append(name)
            continue
        row: Mapping[str, Any] = {
            "value": field.value, "unit": field.unit, "error": field.error,
            "window_ns": field.window_ns,
        }  # fmt: skip
        present.append((Piece(f"{name:<{LABEL}}", "dim"), Piece(readings_view.value(row))))
    gone = [
        each
        for why, names in absent.items()
        for each in wrapped("absent ", f"{', '.join(names)}: {why}", look.columns, "dim")
    ]
    return [*present, *gone]


VIEW = View(
    name="device",
    title="Device",
    says="one device: its past minute as plots, and every reading",
    needs=("devices", "readings"),
    subject="device",
    lines=_lines,
)
