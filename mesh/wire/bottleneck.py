# SPDX-License-Identifier: Apache-2.0
"""The bottleneck of a job: the cause that takes most of the time of its devices.

Pure: the devices and kernels of a trace summary in, as plain objects; the shares behind the answer
come with it, so that a reader can judge it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

Name = Literal[
    "GPU-bound",
    "copy-bound",
    "launch-bound",
    "host-bound",
    "starved of CPU",
    "blocked",
    "paging",
    "waiting for a peer",
    "throttled",
    "idle",
    "not observed",
]
NAMES: frozenset[str] = frozenset(get_args(Name))
BY_CAUSE: dict[str, Name] = {
    "kernel_ns": "GPU-bound",
    "copy_ns": "copy-bound",
    "host_on_cpu_ns": "host-bound",
    "host_runnable_ns": "starved of CPU",
    "host_blocked_ns": "blocked",
    "host_paging_ns": "paging",
    "peer_ns": "waiting for a peer",
    "throttled_ns": "throttled",
    "held_idle_ns": "idle",
    "not_observed_ns": "not observed",
}
"""The bottleneck that each cause of a device's time stands for."""

LAUNCHES_LEAST = 100
"""Fewer launches say nothing about the cost of one."""
SHORT_KERNEL_NS = 50_000
"""A kernel shorter than this does not hide its own launch, which costs the host 5 to 20 us
(`docs/measurements/figures.md`, the launches of `bench probes`)."""
IDLE_SHARE = 0.9
"""A device is idle that was held for this part of its time without use."""

Object = Mapping[str, Any]


class Bottleneck(msgspec.Struct, frozen=True):
    """The cause with the largest share of the held device time, and the shares around it."""

    name: Name
    share: float
    """Its part of `held_ns`, from 0 to 1."""
    second: Name | None
    second_share: float
    busy: float
    """The part of kernels and copies together."""
    held_ns: int
    """The time of all devices together."""
    idle_ns: int
    devices: int
    idle_devices: tuple[str, ...] = ()
    """The devices among several that nobody used."""
    launches: int = 0
    """The launches seen, where the name is launch-bound; else 0."""
    kernel_ns: int = 0
    """The mean time of a kernel, where the name is launch-bound; else 0."""


def bottleneck(devices: Sequence[Object], kernels: Sequence[Object]) -> Bottleneck | None:
    """Judge the devices and kernels of a trace; None if no device was held for any time.

    A cause that is not measured counts as 0 here: its time stands under another cause.
    """
    held_ns = sum(device["window_ns"] for device in devices)
    if held_ns <= 0:
        return None
    spent = {
        cause: sum(device["causes"].get(cause) or 0 for device in devices) for cause in BY_CAUSE
    }
    first, second = sorted(spent, key=lambda cause: -spent[cause])[:2]
    launches, kernel_ns = _launches(kernels) if first == "host_on_cpu_ns" else (0, 0)
    return Bottleneck(
        "launch-bound" if launches else BY_CAUSE[first],
        spent[first] / held_ns,
        BY_CAUSE[second] if spent[second] else None,
        spent[second] / held_ns,
        (spent["kernel_ns"] + spent["copy_ns"]) / held_ns,
        held_ns,
        spent["held_idle_ns"],
        len(devices),
        _idle(devices) if first != "held_idle_ns" else (),
        launches,
        kernel_ns,
    )


def _launches(kernels: Sequence[Object]) -> tuple[int, int]:
    """The launches of short kernels and their mean time; zeros if launches are no bottleneck."""
    count = sum(row["count"] + (row.get("unseen") or 0) for row in kernels)
    if count < LAUNCHES_LEAST:
        return 0, 0
    mean_ns = sum(row["total_ns"] for row in kernels) // count
    return (count, mean_ns) if mean_ns < SHORT_KERNEL_NS else (0, 0)


def _idle(devices: Sequence[Object]) -> tuple[str, ...]:
    return tuple(
        str(device["id"])
        for device in devices
        if (device["causes"].get("held_idle_ns") or 0) >= IDLE_SHARE * max(1, device["window_ns"])
    )
