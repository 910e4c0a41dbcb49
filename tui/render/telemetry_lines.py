# SPDX-License-Identifier: Apache-2.0
"""One line of text for each row of telemetry: when, of what kind, about what, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from stoker.tui.render import text, units

KINDS_ROOM = 12
KERNELS_SHOWN = 3
"""The most kernels named in one line."""


def line(kind: str, t_ns: int, row: Mapping[str, Any]) -> str:
    """Return the line of a row; times are local ones of CLOCK_REALTIME."""
    moment = datetime.fromtimestamp(t_ns / 1e9).strftime("%H:%M:%S.%f")[:-3]
    says = _SAYS.get(kind, _plain)(row)
    return text.clean(f"{moment}  {kind:<{KINDS_ROOM}}  {says}")


def lost(t_ns: int, kind: str, why: str) -> str:
    """Return the line about messages that are missing."""
    moment = datetime.fromtimestamp(t_ns / 1e9).strftime("%H:%M:%S.%f")[:-3]
    return f"{moment}  {kind:<{KINDS_ROOM}}  -- {why}"


def _event(row: Mapping[str, Any]) -> str:
    about = _job(row) if "job" in row else text.joined((row.get("node", ""), row.get("device", "")))
    return text.joined(part for part in (about, row.get("what", ""), row.get("reason", "")) if part)


def _decision(row: Mapping[str, Any]) -> str:
    devices = ", ".join(each["device"] for each in row.get("devices", ()))
    where = text.joined(part for part in (row.get("node", ""), devices) if part)
    read = len(row.get("observations", ()))
    seen = f"{read} observations" if read else ""
    return text.joined(part for part in (_job(row), where, row.get("reason", ""), seen) if part)


def _outcome(row: Mapping[str, Any]) -> str:
    end = f"exit {row['exit_code']}" if row.get("exit_code") is not None else ""
    return text.joined(
        part for part in (_job(row), row.get("state", ""), end, row.get("reason", "")) if part
    )


def _kernels(row: Mapping[str, Any]) -> str:
    kernels = row.get("kernels", ())
    shown = [
        f"{each['name']} {each['count']}x {units.duration(each['total_ns'])}"
        for each in kernels[:KERNELS_SHOWN]
    ]
    hidden = len(kernels) - len(shown) + row.get("other", {}).get("names", 0)
    more = f"and {hidden} more" if hidden else ""
    final = "final" if row.get("final") else ""
    simulated = "SIM" if row.get("simulated") else ""
    parts = (_job(row), simulated, final, ", ".join(shown) or "no kernels", more)
    return text.joined(part for part in parts if part)


def _observation(row: Mapping[str, Any]) -> str:
    devices = [_device(each) for each in row.get("devices", ())]
    load = f"load {row['load_milli'] / 1000:.2f}" if "load_milli" in row else ""
    return text.joined(part for part in (row.get("node", ""), load, ", ".join(devices)) if part)


def _alert(row: Mapping[str, Any]) -> str:
    alert = row.get("alert", {})
    series = alert.get("series", {})
    device = series.get("hw.id", "")
    simulated = "SIM" if "SIM" in str(series.get("hw.name", "")) else ""
    about = (row.get("node", ""), device, simulated)
    says = (f"a{alert.get('id')}", row.get("change", ""), alert.get("rule", ""))
    return text.joined(str(part) for part in (*says, *about, alert.get("reason", "")) if part)


def _device(row: Mapping[str, Any]) -> str:
    known = [
        f"{row[name] * scale:.0f} {unit}"
        for name, scale, unit in _FIGURES
        if row.get(name) is not None
    ]
    return " ".join((str(row.get("id", "")), *known))


def _job(row: Mapping[str, Any]) -> str:
    task = f".{row['task']}" if row.get("task") else ""
    who = f" of {row['user']}" if row.get("user") else ""
    return f"job {row.get('job')}{task}{who}"


def _plain(row: Mapping[str, Any]) -> str:
    return str(dict(row))


_FIGURES = (("busy_ratio", 100, "% busy"), ("power_w", 1, "W"), ("temperature_c", 1, "C"))
_SAYS = {
    "events": _event,
    "decisions": _decision,
    "outcomes": _outcome,
    "kernels": _kernels,
    "observations": _observation,
    "alerts": _alert,
}
