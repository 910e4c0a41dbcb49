# SPDX-License-Identifier: Apache-2.0
"""The efficiency of a job in words: its bottleneck with the evidence, a remedy, its use.

Pure: the object of `explain -o json` in, lines out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stoker.tui.render import device_causes, text, units

Object = Mapping[str, Any]

SECOND_LEAST = 0.1
"""A second cause with a smaller share is not worth a word."""
WASTE_LEAST_NS = 60_000_000_000
"""Less idle time of devices is not worth a word."""
HOUR_NS = 3_600_000_000_000
THROTTLED_SHOWN = 4
"""More throttled devices than this are counted."""

_SAID = {
    "GPU-bound": "kernels ran",
    "copy-bound": "the devices copied",
    "launch-bound": "the devices waited for the host to launch",
    "host-bound": "the devices waited for the program's own code on the CPU",
    "starved of CPU": "the program was ready to run and got no CPU",
    "blocked": "the program slept or waited for input, output or other processes",
    "paging": "the program waited for memory pages or the disk",
    "waiting for a peer": "the devices waited for other ranks",
    "throttled": "the devices were slowed down",
    "idle": "no process of the job used the devices",
    "not observed": "nobody saw what the devices did",
}
_REMEDIES = {
    "copy-bound": "keep data on the device, copy while kernels run, and use pinned memory",
    "launch-bound": "launch less often: larger batches, fused kernels, CUDA graphs",
    "host-bound": "profile the program's host code: stoker trace {job} shows it beside the kernels",
    "starved of CPU": "ask for more CPUs (--cpus), or run beside fewer neighbours",
    "blocked": "prefetch its input: more loader processes, faster storage",
    "paging": "ask for more memory (--mem), or read less of it at once",
    "waiting for a peer": "find the rank that comes last: stoker job {job} has the times of all",
    "throttled": "see its limits: stoker power, and stoker metrics for temperature and clocks",
    "idle": "end it if nobody needs it: stoker cancel {job}",
    "not observed": "the report of stoker job {job} says what was not observed and why",
}
_ENDED = {"idle": "ask for no GPU, or start the part of the program that uses it sooner"}
"""The remedies that are others once a job is over."""


def lines(explained: Object) -> Iterator[tuple[str, str]]:
    """Yield the label and the words of each line; nothing for a job that never started."""
    found = explained.get("efficiency")
    if not found:
        return
    if found["bottleneck"]:
        yield from _bottleneck(explained, found["bottleneck"])
    elif found["absent"]:
        yield "bottleneck: ", f"not known: {found['absent']}"
    yield from _throttled(found)
    if used := text.joined(_used(found), ", "):
        yield "used: ", used


def _bottleneck(explained: Object, found: Object) -> Iterator[tuple[str, str]]:
    name = found["name"]
    second = (
        f"; then {found['second']}, {units.percent(found['second_share'])}"
        if found["second"] and found["second_share"] >= SECOND_LEAST
        else ""
    )
    yield (
        "bottleneck: ",
        f"{name}: {_SAID[name]} for {units.percent(found['share'])} of the device time"
        f"{_launches(found)}{second}",
    )
    for device in found["idle_devices"]:
        yield "  idle: ", f"{device} was held and hardly used: ask for fewer GPUs"
    if remedy := _remedy(explained, name):
        yield "  remedy: ", remedy


def _throttled(found: Object) -> Iterator[tuple[str, str]]:
    """The throttled devices, each with what throttled it and by whose word that is known."""
    shown = found["throttled"][:THROTTLED_SHOWN]
    for device in shown:
        why = device_causes.throttles(device)
        yield (
            "  throttled: ",
            f"{device['device']} for {units.percent(device['share'])} of its time,"
            f" {units.duration(device['ns'])}{why and ': ' + why.removeprefix('throttled ')}",
        )
    if more := len(found["throttled"]) - len(shown):
        yield "  throttled: ", f"and {more} more devices"
    if found["throttled_absent"]:
        yield "  throttled: ", f"not known: {found['throttled_absent']}"


def _launches(found: Object) -> str:
    if not found["launches"]:
        return ""
    count, mean = units.number(found["launches"]), units.duration(found["kernel_ns"])
    return f", {count} launches of {mean} each"


def _remedy(explained: Object, name: str) -> str:
    over = explained["state"] not in ("starting", "running", "stopping")
    remedy = (_ENDED if over else {}).get(name) or _REMEDIES.get(name, "")
    return remedy.format(job=explained["job"])


def _used(found: Object) -> Iterator[str]:
    device = found["bottleneck"]
    if device:
        many = "" if device["devices"] == 1 else f" of {device['devices']}"
        yield f"GPU {units.percent(device['busy'])} busy{many}"
    if found["cpus"] is not None:
        asked = f" of {found['cpus_asked']:g}" if found["cpus_asked"] else ""
        yield f"{found['cpus']:.2f}{asked} CPUs"
    if found["memory_peak_bytes"] is not None:
        asked = found["memory_asked_bytes"]
        of = f" of {units.size(asked)}" if asked else ""
        yield f"memory {units.size(found['memory_peak_bytes'])}{of} at its peak"
    if found["energy_j"] is not None:
        yield f"energy {units.energy(found['energy_j'])}"
    if device and found["wasted_ns"] and device["idle_ns"] >= WASTE_LEAST_NS:
        idle = units.duration(device["idle_ns"] // device["devices"])
        each = "" if device["devices"] == 1 else " on average"
        yield f"held but idle for {idle}{each}, {found['wasted_ns'] / HOUR_NS:.2f} GPU-hours wasted"
