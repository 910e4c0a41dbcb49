# SPDX-License-Identifier: Apache-2.0
"""The plan of a task's NUMA binding: which CPUs and memory it gets beside its devices, or why not.

Pure, and the same wherever it is made: the node binds by it, and the scheduler explains by it.
Invariant: a task is never bound to fewer CPUs than its limit counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stoker.scheduler.nouns import MILLI, DeviceInfo, JobSpec

LIST_BYTES_MAX = 1023
"""The longest list of CPUs by which a task is bound."""


CPUS_MAX = 8192
"""The most CPUs of a list, as the kernel has at most."""


class NumaPlan(NamedTuple):
    """The binding of a task; an empty part is not bound, and `why` says the reason."""

    nodes: tuple[int, ...] = ()
    """The NUMA nodes of its devices."""
    cpus: str = ""
    """The CPUs, as the kernel lists them: 0-3,8."""
    memory_nodes: tuple[int, ...] = ()
    required: bool = False
    why: tuple[str, ...] = ()


def numa_plan(spec: JobSpec, devices: Sequence[DeviceInfo]) -> NumaPlan:
    """Return how a task with these devices of one node is bound."""
    if spec.numa == "none":
        return NumaPlan(why=("--numa none",))
    if not devices:
        return NumaPlan(why=("it has no device",))
    unknown = [device for device in devices if device.numa is None or not device.near_cpus]
    if unknown:
        first = unknown[0]
        return NumaPlan(why=(f"device {first.id}: {first.numa_why or NOT_TOLD}",))
    nodes = tuple(sorted({device.numa for device in devices if device.numa is not None}))
    cpus = cpu_list(cpu for device in devices for cpu in cpu_numbers(device.near_cpus))
    memory = tuple(sorted({d.numa for d in devices if d.numa is not None and d.near_memory}))
    short = _short_of_cpus(spec, cpus)
    why = (*short, *_without_memory(nodes, memory))
    return NumaPlan(nodes, "" if short else cpus, memory, spec.numa == "require", why)


NOT_TOLD = "its node does not tell its NUMA node"


def _short_of_cpus(spec: JobSpec, cpus: str) -> list[str]:
    count = len(cpu_numbers(cpus))
    if len(cpus) > LIST_BYTES_MAX:
        return [f"the list of its CPUs has more than {LIST_BYTES_MAX} characters"]
    if count < cpus_wanted(spec):
        return [f"{count} CPUs beside its devices, and it may use {cpus_wanted(spec)}"]
    return []


def _without_memory(nodes: tuple[int, ...], memory: tuple[int, ...]) -> list[str]:
    bare = sorted({*nodes} - {*memory})
    return [f"NUMA node {node} has no memory of its own on this machine" for node in bare]


def cpus_wanted(spec: JobSpec) -> int:
    """Return how many CPUs a task may use at once by its limit, at least one."""
    return max(1, -(-(spec.cpu_milli or 0) // MILLI))


def cpu_numbers(text: str) -> frozenset[int]:
    """Return the CPUs of a list as the kernel writes it; ValueError if it is none, or names more
    than `CPUS_MAX`."""
    found: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        run = range(int(first), int(last or first) + 1)
        if len(found) + len(run) > CPUS_MAX:
            raise ValueError(f"a list of more than {CPUS_MAX} CPUs")
        found.extend(run)
    return frozenset(found)


def cpu_list(cpus: Iterable[int]) -> str:
    """Return CPUs as the kernel lists them."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def plan_words(plan: NumaPlan) -> str:
    """Return a plan as words: "bound to NUMA node 0: CPUs 0-3, memory of NUMA node 0 first"."""
    if not plan.nodes:
        return f"not bound to a NUMA node: {'; '.join(plan.why)}"
    parts = [f"CPUs {plan.cpus}"] if plan.cpus else []
    if plan.memory_nodes:
        how = "alone" if plan.required else "first"
        parts.append(f"memory of {_nodes(plan.memory_nodes)} {how}")
    of = _nodes(plan.nodes)
    bound = f"bound to {of}: {', '.join(parts)}" if parts else f"not bound to {of}"
    return "; ".join([bound, *plan.why])


def _nodes(numbers: tuple[int, ...]) -> str:
    return f"NUMA node{'s' * (len(numbers) > 1)} {cpu_list(numbers)}"
