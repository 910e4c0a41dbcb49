# SPDX-License-Identifier: Apache-2.0
"""Admission of a request's conditions on its devices: their form, and that they do not contradict.

Pure. Whether a device meets them is for the core to say; what no device could ever meet is refused
here, because each text says it by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.mesh.wire.job_request import JobRequest
from stoker.native.errors import BadRequest
from stoker.scheduler.conditions import (
    JOB_CONDITIONS_MAX,
    PREFERENCES_MAX,
    Comparison,
    arch_name,
    capability,
    capability_text,
    driver_bounds,
    preference,
)
from stoker.scheduler.wire_names import Relation

WORD_CHARS_MAX = 128
_FIELDS = ("models", "vendors", "archs", "drivers", "profiles", "prefer")


def check_conditions(request: JobRequest) -> None:
    """Raise BadRequest for the first condition that says nothing, or contradicts another."""
    given = [field for field in _FIELDS if getattr(request, field)]
    given += ["device_memory_least_bytes"] if request.device_memory_least_bytes else []
    given += ["compute_least"] if request.compute_least else []
    if not given:
        return
    if not request.gpu_milli:
        raise BadRequest(f"{given[0]} speaks of devices, but gpu_milli is 0")
    for field in given:
        _check_words(field, getattr(request, field))
    if len(request.prefer) > PREFERENCES_MAX:
        raise BadRequest(f"prefer has {len(request.prefer)} terms, at most {PREFERENCES_MAX}")
    for text in request.prefer:
        preference(text)
    _check_drivers(request.drivers)
    _check_compute(request)
    _check_vendors(request)


def _check_words(field: str, words: object) -> None:
    if not isinstance(words, tuple):
        return
    if len(words) > JOB_CONDITIONS_MAX:
        raise BadRequest(f"{field} has {len(words)} conditions, at most {JOB_CONDITIONS_MAX}")
    for word in words:
        if not 0 < len(word) <= WORD_CHARS_MAX or not word.isprintable():
            raise BadRequest(
                f"{field} has 1 to {WORD_CHARS_MAX} printable characters: {word!r:.80}"
            )


def _check_drivers(drivers: tuple[str, ...]) -> None:
    least, most = 0, 1 << 62
    for driver in drivers:
        for relation, value in driver_bounds(driver):
            if relation == Relation.LEAST:
                least = max(least, value)
            else:
                most = min(most, value)
    if least > most:
        raise BadRequest(f"drivers {' and '.join(drivers)} contradict each other: none is both")


def _check_compute(request: JobRequest) -> None:
    named = [name for arch in request.archs if isinstance(name := arch_name(arch), Comparison)]
    if named and len(named) < len(request.archs):
        raise BadRequest("archs mixes names with sm_ numbers, which are compute capabilities")
    if not request.compute_least:
        return
    least = capability(request.compute_least)
    if named and all(each.value < least for each in named):
        asked = ", ".join(capability_text(each.value) for each in named)
        raise BadRequest(
            f"archs mean compute capability {asked}, but compute_least is {request.compute_least}"
        )


def _check_vendors(request: JobRequest) -> None:
    """Refuse what only devices of one vendor have, if another vendor or the CPU is asked for."""
    for what, vendor in _belongs(request):
        if request.device_kind == "cpu":
            raise BadRequest(f"{what} is of {vendor} GPUs, but device_kind is 'cpu'")
        if request.vendors and vendor not in map(str.lower, request.vendors):
            others = ", ".join(request.vendors)
            raise BadRequest(f"{what} is of {vendor} GPUs, but vendors is {others}")


def _belongs(request: JobRequest) -> Iterator[tuple[str, str]]:
    """Yield each condition that only devices of one vendor can meet, with that vendor."""
    if request.compute_least:
        yield f"compute_least {request.compute_least}", "nvidia"
    vendors = {_vendor_of(arch) for arch in request.archs}
    if len(vendors) == 1 and (vendor := vendors.pop()):
        yield f"architecture {request.archs[0]!r}", vendor


def _vendor_of(arch: str) -> str:
    if isinstance(arch_name(arch), Comparison):
        return "nvidia"
    return "amd" if arch.strip().lower().startswith("gfx") else ""
