# SPDX-License-Identifier: Apache-2.0
"""The core's figures as text for people; pure. Units of records, such as milli-shares, stay out."""

from __future__ import annotations

from typing import Final

_BYTES: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SHORT: Final = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))
MILLI: Final = 1000
S: Final = 1_000_000_000


class Figure(int):
    """A number whose unit a format names: bytes, cpus, devices, share, span or percent."""

    def __format__(self, unit: str) -> str:
        return _UNITS[unit](self) if unit in _UNITS else super().__format__(unit)


def size(count: int) -> str:
    """Format bytes to four digits, in powers of 1024: "1.5 GiB"."""
    power = 0
    while power + 1 < len(_BYTES) and count >= 1024 ** (power + 1):
        power += 1
    return "1 byte" if count == 1 else f"{count / 1024**power:.4g} {_BYTES[power]}"


def cpus(milli: int) -> str:
    """Format milli-CPUs: "1 CPU", "2.5 CPUs"."""
    return f"{milli / MILLI:g} CPU{'' if milli == MILLI else 's'}"


def devices(milli: int) -> str:
    """Format milli-shares of devices: "0.5 of a device", "1 device", "3 devices"."""
    if milli % MILLI:
        return f"{milli / MILLI:g} of a device" if milli < MILLI else f"{milli / MILLI:g} devices"
    return f"{milli // MILLI} device{'' if milli == MILLI else 's'}"


def span(ns: int) -> str:
    """Format a duration to about three digits: "35 us", "3.2 s", "3 min 58 s", "2 h 10 min"."""
    if ns >= 60 * S:
        return _long(round(ns / S))
    for unit, name in _SHORT:
        if ns >= unit:
            return f"{ns / unit:.3g} {name}"
    return f"{max(0, ns)} ns"


def _long(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} days {hours % 24} h"


def share(milli: int) -> str:
    """Format a milli-share without its unit: "0.5"."""
    return f"{milli / MILLI:g}"


def percent(milli: int) -> str:
    """Format thousandths of a whole: "2.5 %"."""
    return f"{milli / 10:g} %"


_UNITS: Final = {
    "share": share,
    "bytes": size,
    "cpus": cpus,
    "devices": devices,
    "span": span,
    "percent": percent,
}
