# SPDX-License-Identifier: Apache-2.0
"""The checks of this machine: room, rights, limits, cgroups, devices, probes.

For `stoker doctor`. A check changes nothing on the machine.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

from stoker.agent.commands.doctor_check import Check, Status
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import (
    confine,
    leftover_cgroups,
    pids,
)

DISK_BYTES_MIN = 1 << 30
SHM_BYTES_MIN = 256 << 20
NOFILE_MIN = 4096


def space(where: StateFolder) -> Iterator[Check]:
    """Check the room on the disk of the state folder and in /dev/shm."""
    folder = where.root
    while not folder.exists():
        folder = folder.parent
    for id, path, minimum, cost in (
        ("disk.state", folder, DISK_BYTES_MIN, "submits are refused when it is full"),
        ("disk.shm", Path("/dev/shm"), SHM_BYTES_MIN, "GPU kernels of jobs cannot be traced"),
    ):
        free = shutil.disk_usage(path).free
        text = f"{free / 2**30:.1f} GiB free at {path}"
        if free < minimum:
            yield Check(id, "WARN", f"{text}: {cost}", f"Free {minimum >> 20} MiB")
        else:
            yield Check(id, "PASS", text)


def root(where: StateFolder) -> Iterator[Check]:
    """Check what this user may do: run others' jobs, drop capabilities."""
    if os.geteuid() != 0:
        yield Check(
            "rights.root",
            "WARN",
            "not root: no cgroups, no device gate, no probes, jobs of this user only",
            "sudo stoker up, or `stoker install-service`",
        )
        return
    yield Check("rights.root", "PASS", "root: jobs run as their owners")
    if confine.may_drop():
        yield Check("rights.drop", "PASS", "broker and scheduler run without capabilities")
    else:
        yield Check(
            "rights.drop",
            "WARN",
            "CAP_SETPCAP is missing: broker and scheduler keep what this container has",
        )


def memory_order(where: StateFolder) -> Iterator[Check]:
    """Check the order in which memory exhaustion ends processes; root only, as jobs else share the
    caller's user."""
    if os.geteuid() != 0:
        return
    if confine.holds(confine.CAP_SYS_RESOURCE):
        text = "when memory runs out, jobs end before the node's processes and cannot change that"
        yield Check("memory.order", "PASS", text)
        return
    yield Check(
        "memory.order",
        "WARN",
        "CAP_SYS_RESOURCE is missing: a job may lower its oom_score_adj, and others are then ended "
        "before it when memory runs out",
        "Give the container SYS_RESOURCE, or bound jobs: memory_per_job of [jobs] in config.toml",
    )


def limits(where: StateFolder) -> Iterator[Check]:
    """Check how many files a process may have open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
    few = hard != resource.RLIM_INFINITY and hard < NOFILE_MIN
    hint = "Raise LimitNOFILE= or ulimit -Hn" if few else ""
    yield Check("limits.nofile", "WARN" if few else "PASS", f"{text} open files", hint)


def cgroups(where: StateFolder) -> Iterator[Check]:
    """Check what of jobs can be held in cgroups."""
    mounted = leftover_cgroups.hierarchies(Path("/proc/self/mountinfo").read_text())
    second = next((path for path, names in mounted if names == {"cgroup2"}), None)
    if second is None:
        yield Check("cgroup.v2", "WARN", "no cgroup v2 is mounted: jobs are not contained")
        return
    writable = os.access(second, os.W_OK)
    yield Check(
        "cgroup.v2",
        "PASS" if writable else "WARN",
        f"{second} is {'' if writable else 'not '}writable",
        "" if writable else "Run as root, or jobs are not contained",
    )
    given = set((second / "cgroup.controllers").read_text().split())
    for name in ("cpu", "memory", "pids"):
        old = next((path for path, names in mounted if name in names), None)
        id, place = f"cgroup.{name}", second if name in given else old
        if place is not None and not os.access(place, os.W_OK):
            yield Check(id, "WARN", f"{place} is not writable: a job's {name} limit is refused")
        elif place is not None:
            yield Check(id, "PASS", f"limits by {place}")
        else:
            yield Check(id, "WARN", f"no {name} controller: a job's {name} limit is refused")


def devices(where: StateFolder) -> Iterator[Check]:
    """Check that there is a device to run on."""
    from stoker.agent.devices import registry  # noqa: F401  # it imports every vendor
    from stoker.agent.devices.vendor import VENDORS

    scans = [make({}).scan() for make in VENDORS]
    found = [device for scan in scans for device in scan.devices]
    missing = [text for scan in scans for text in scan.missing]
    for device in found:
        status: Status = "WARN" if device.unavailable else "PASS"
        sim = " SIM" if device.sim else ""
        text = f"{device.vendor} {device.model}{sim} {device.unavailable}".strip()
        yield Check(f"device.{device.id}", status, text)
    for text in missing:
        yield Check("device.missing", "WARN" if not found else "PASS", text)
    if not found:
        hint = "Install a GPU driver, or pocl-opencl-icd for a CPU device"
        yield Check("device.any", "WARN", "no device: jobs with --gpus wait for ever", hint)


def xids(where: StateFolder) -> Iterator[Check]:
    """Check the sources from which errors of NVIDIA's driver reach the agent."""
    from stoker.agent.health import sources

    log, point = sources.kernel_log(Path("/dev/kmsg")), sources.tracepoint()
    events = sources.Source(sources.NVML)
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        events = sources.Source(sources.NVML, "libnvidia-ml.so.1 is not installed")
    text = sources.sentence((point, log, events))
    if log.why:
        hint = "Give the agent /dev/kmsg, the only source for faults of AMD and Intel cards"
        yield Check("health.xids", "WARN", text, hint)
    else:
        yield Check("health.xids", "PASS", text)


def opencl(where: StateFolder) -> Iterator[Check]:
    """Check that a job's calls of OpenCL pass through the tracer."""
    try:
        ctypes.CDLL("libOpenCL.so.1")
    except OSError as error:
        hint = "apt-get install ocl-icd-libopencl1"
        yield Check("opencl.loader", "WARN", f"no OpenCL loader: {error}", hint)
        return
    if _reads_layers():
        yield Check("opencl.loader", "PASS", "the OpenCL loader has layers: kernels are traced")
    else:
        yield Check(
            "opencl.loader",
            "WARN",
            "this OpenCL loader does not support layers: kernels are not traced",
            "Install ocl-icd 2.3 or the Khronos loader 3.0 or newer",
        )


def _reads_layers() -> bool:
    """True if the loaded loader mentions OPENCL_LAYERS, the variable that names a layer."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "libOpenCL.so" in line:
            return b"OPENCL_LAYERS" in Path(line.split(maxsplit=5)[5]).read_bytes()
    return False


def power(where: StateFolder) -> Iterator[Check]:
    """Check the record of power limits: it exists while stoker has set cards."""
    from stoker.agent.power.setters import record

    path = record.path(where.agent)
    found = record.load(path)
    if found is None:
        yield Check("power.record", "PASS", "stoker has set no power limit")
        return
    cards = ", ".join(sorted({each.id for each in found[1]}))
    if "agent" in pids.find(where):
        yield Check("power.record", "PASS", f"the agent controls the limits of {cards}")
        return
    hint = f"`stoker up` restores them, and so does: stoker-restore --record {path}"
    yield Check("power.record", "WARN", f"limits set by stoker were left on {cards}", hint)


def probes(where: StateFolder) -> Iterator[Check]:
    """Check each probe of calls, kernels and the host."""
    from stoker.probes.doctor.probe_doctor import probe_report

    for row in probe_report(where.agent):
        yield Check(row.id, row.status, row.text, row.hint)
