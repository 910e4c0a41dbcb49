# SPDX-License-Identifier: Apache-2.0
"""Quantities as a person types them: shares, sizes, times, jobs, lists of indexes.

Parsing is exact (decimal, never float) and refuses what it would have to round.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from stoker.native.errors import BadRequest
from stoker.scheduler import array_indexes
from stoker.scheduler.array_indexes import ArrayIndexes
from stoker.tui.render.units import MILLI

_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_SECONDS: dict[str, Decimal] = {
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTP]?)(?:iB|i|B)?", re.IGNORECASE)
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_CLOCK = re.compile(r"(?:(\d{1,4})-)?(\d{1,5})(?::(\d{1,5}))?(?::(\d{1,2}))?", re.ASCII)
"""Slurm's forms: DAYS-HOURS[:MINUTES[:SECONDS]], HOURS:MINUTES:SECONDS and MINUTES:SECONDS."""
_BARE = re.compile(r"\d+(?:\.\d+)?")
_NO_LIMIT = re.compile(r"unlimited|infinite|0+", re.IGNORECASE)
"""Slurm's words for a time that has no end."""
_TYPED = re.compile(r"([^\s:]+):(\d+)", re.ASCII)
"""Slurm's form of devices of a model: MODEL:NUMBER."""
_JOBS = re.compile(r"last|(\d{1,18})(-(\d{1,18})?)?", re.ASCII)
AFTERS_MAX = 8
"""The most jobs that one job may follow."""
_TIME_MAX_S = 10 * 365 * 86400
_SIZE_MAX = 1 << 60
_BARE_BYTES_MIN = 1 << 20
"""A smaller size without a unit is taken for one in Slurm's unit, which is MiB."""
_SHARE_MAX = 1_000_000 * MILLI


def milli(text: str, what: str) -> int:
    """Thousandths of a device or a CPU, exactly: `2` -> 2000, `0.005` -> 5, `5m` -> 5."""
    scale, digits = (1, text[:-1]) if text.endswith("m") else (MILLI, text)
    try:
        value = Decimal(digits) * scale
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or value != value.to_integral_value():
        raise BadRequest(f"{what} {text!r} is not a number in steps of 0.001")
    if not 0 <= value <= _SHARE_MAX:
        raise BadRequest(f"{what} {text!r} is not between 0 and {_SHARE_MAX // MILLI}")
    return int(value)


def gpu_milli(text: str) -> int:
    """Thousandths for `--gpus`: 0, a part of one device, or whole devices; not `1.5`."""
    if typed := _TYPED.fullmatch(text):
        said = f"--gpus {typed[2]} --gpu-model {typed[1]}"
        raise BadRequest(f"--gpus {text!r} names a model as Slurm does: say {said}")
    value = milli(text, "--gpus")
    if value > MILLI and value % MILLI:
        raise BadRequest(f"--gpus {text!r}: more than one device is granted in whole devices only")
    return value


def size_bytes(text: str, what: str) -> int:
    """Bytes, in units that are powers of 1024: `4G`, `512M`, `1.5GiB`, `4Gi`, `1048576`."""
    text = text.strip()
    match = _SIZE.fullmatch(text)
    if match is None:
        raise BadRequest(f"{what} {text!r} is not a size such as 512M or 4G")
    if _BARE.fullmatch(text) and 0 < Decimal(text) < _BARE_BYTES_MIN:
        raise BadRequest(f"{what} {text!r} has no unit: say {text}M for MiB, which Slurm means")
    value = Decimal(match[1]) * _SIZES[match[2].upper()]
    if value != value.to_integral_value() or not 0 < value <= _SIZE_MAX:
        raise BadRequest(f"{what} {text!r} is not a number of bytes from 1 to 1024P")
    return int(value)


def limit_seconds(text: str, what: str) -> float:
    """Seconds as `seconds` reads them, but no bare number, which Slurm reads as minutes."""
    text = text.strip()
    if _NO_LIMIT.fullmatch(text):
        raise BadRequest(f"{what} {text!r} is no limit in Slurm: leave out {what}")
    if _BARE.fullmatch(text):
        raise BadRequest(f"{what} {text!r} has no unit: say {text}s or {text}m, as Slurm means it")
    return seconds(text, what)


def seconds(text: str, what: str) -> float:
    """Seconds: `90`, `90s`, `2h`, `1h30m`, `500ms`, `1:30:00`, `2-12:00:00`."""
    text = text.strip()
    if _BARE.fullmatch(text):
        text += "s"
    parts = _SPAN.findall(text)
    value = _clock_seconds(text)
    if value is None:
        if not parts or "".join(n + u for n, u in parts) != re.sub(r"\s", "", text):
            raise BadRequest(f"{what} {text!r} is not a time such as 90s, 1h30m or 1:30:00")
        value = sum((Decimal(n) * _SECONDS[u] for n, u in parts), Decimal(0))
    if not 0 < value <= _TIME_MAX_S:
        raise BadRequest(f"{what} {text!r} is not between 1ms and ten years")
    return float(value)


def _clock_seconds(text: str) -> Decimal | None:
    """Seconds of a time in Slurm's forms; None if it has none of them."""
    match = _CLOCK.fullmatch(text)
    if match is None or (match[1] is None and match[3] is None):
        return None
    numbers = [int(each) for each in match.group(2, 3, 4) if each is not None]
    if match[1] is None and len(numbers) == 2:
        numbers.insert(0, 0)
    hours, minutes, seconds_ = (*numbers, 0, 0)[:3]
    return Decimal(((int(match[1] or 0) * 24 + hours) * 60 + minutes) * 60 + seconds_)


def whole_seconds(text: str, what: str) -> int:
    """Whole seconds: `90`, `2m`."""
    value = seconds(text, what)
    if not value.is_integer():
        raise BadRequest(f"{what} {text!r} is not a whole number of seconds")
    return int(value)


def jobs(text: str, what: str) -> tuple[int | str, ...]:
    """Jobs: `7`, `last`, `7,9`, the name of an array `4-600`, or `4-`: the array from job 4 on."""
    found: list[int | str] = []
    for part in map(str.strip, text.split(",")):
        match = _JOBS.fullmatch(part)
        if match is None:
            raise BadRequest(f"{what} {text!r} is not one: numbers as in 7,9 or 4-6, or last")
        if match[3] and int(match[3]) < int(match[1]):
            raise BadRequest(f"{what} {text!r}: {part} is empty")
        alone = match[1] and match[3] in (None, match[1]) and match[2] != "-"
        found.append(int(match[1]) if alone else part)
    if len(found) > AFTERS_MAX:
        raise BadRequest(f"{what} {text!r} has more than {AFTERS_MAX} jobs")
    return tuple(found)


def indexes(text: str, what: str) -> ArrayIndexes:
    """The indexes of an array in their order: `0-9`, `0-9:2`, `1,5,7-9`, `0-9%2`; no text, none."""
    return array_indexes.parse(text, what)


def names(text: str) -> tuple[str, ...]:
    """Return the names of a list with commas, without blanks; none for an empty text."""
    return tuple(word.strip() for word in text.split(",") if word.strip())
