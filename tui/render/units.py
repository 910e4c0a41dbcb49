# SPDX-License-Identifier: Apache-2.0
"""Quantities as a person reads them: shares, sizes, times.

Every text keeps three significant digits and names its unit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from decimal import Decimal

MILLI = 1000
KWH_J = 3_600_000.0


def at_least(count: str, seen: float) -> str:
    """A lower bound from a part of the time: `at least 63,800 (47 % seen)`."""
    return f"at least {count} ({percent(seen)} seen)"


def percent(share: float) -> str:
    """A share such as `47 %`, `0.31 %` or `99.94 %`; less than all never reads as `100 %`."""
    value = min(share * 100, 99.99) if share < 1 else share * 100
    return f"{value:.0f} %" if 1 <= value < 99.5 or share == 1 else f"{value:.4g} %"


def duration(ns: float | None) -> str:
    """Nanoseconds as text: `812 ns`, `1.24 us`, `12.3 ms`, `4.56 s`, `2m 05s`, `3h 12m`."""
    if ns is None:
        return "-"
    if ns < 0:
        return "-" + duration(-ns)
    for limit, unit, name in ((1e3, 1, "ns"), (1e6, 1e3, "us"), (1e9, 1e6, "ms"), (6e10, 1e9, "s")):
        if ns < limit * 0.9995 or (name == "s" and ns < limit):
            return f"{_three(ns / unit)} {name}"
    minutes, rest = divmod(int(ns / 1e9), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h {minutes:02}m"
    return f"{hours // 24}d {hours % 24:02}h"


def between(first_ns: int | None, second_ns: int | None) -> str:
    """The time between two moments; empty where one of them is not known."""
    if first_ns is None or second_ns is None:
        return ""
    return duration(second_ns - first_ns)


def counted(counts: Mapping[str, int]) -> str:
    """Numbers with what each counts, in their order: `2 running, 8 pending`."""
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())


def device_hours(ns: int | None) -> str:
    """Time of devices as text, in the unit of budgets: 5,400 s -> `1.50 h`; a minute is 0.02 h."""
    return "-" if ns is None else f"{ns / 3.6e12:.2f} h"


def size(count: float | None) -> str:
    """Bytes as text: `0 B`, `1.50 KiB`, `4.00 GiB`."""
    if count is None:
        return "-"
    value = float(count)
    for name in ("B", "KiB", "MiB", "GiB"):
        if value < 1000:
            return f"{_three(value)} {name}"
        value /= 1024
    return f"{_three(value)} TiB"


def share(value: int | None) -> str:
    """Milli-shares as text: 2000 -> `2`, 5 -> `0.005`."""
    if value is None:
        return "-"
    return f"{Decimal(value) / MILLI:f}"


def energy(joules: float) -> str:
    """Joules as text: `950 J`, `12.3 kJ`, and from 0.1 kWh on `1.25 kWh`."""
    if joules >= KWH_J / 10:
        return f"{_three(joules / KWH_J)} kWh"
    return f"{_three(joules)} J" if joules < 1000 else f"{_three(joules / 1000)} kJ"


def number(value: int | None) -> str:
    """A count with its thousands separated: `100,003`."""
    return "-" if value is None else f"{value:,}"


def age(t_ns: int | None, now_ns: int) -> str:
    """The time since a CLOCK_REALTIME moment; a moment in the future reads as `0 ns`."""
    return "-" if not t_ns else duration(max(0, now_ns - t_ns))


def moment(t_ns: int) -> str:
    """A CLOCK_REALTIME moment as local date and time: `2026-11-27 10:05:25`."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(t_ns / 1e9))


def _three(value: float) -> str:
    if float(value).is_integer() and value < 1000:
        return str(int(value))
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
