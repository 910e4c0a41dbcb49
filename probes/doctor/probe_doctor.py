# SPDX-License-Identifier: Apache-2.0
"""The report on what can be measured on this machine, and why the rest cannot.

Each check tries the feature itself and never guesses from a version. Nothing is changed: BPF
programs are attached for no cgroup and detached again, a driver is loaded in a separate process. A
check that takes longer than three seconds becomes a warning.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from stoker.native.errors import StokerError
from stoker.probes.catalogue import HOST_PROBES, Payer, ProbeState
from stoker.probes.doctor.check_report import ProbeCheck
from stoker.probes.doctor.cupti_doctor import cupti_checks
from stoker.probes.doctor.site_doctor import site_checks
from stoker.probes.host.cgroups import cgroup_level
from stoker.probes.host.host_probes import Cost, HostProbes
from stoker.probes.kernels.clock_table import ClockRow, clock_table

COST_WINDOW_S = 0.2
"""The duration of measuring the host's programs."""

PAYS: dict[Payer, str] = {
    "job": "jobs pay, others for a look alone",
    "rare": "the machine pays, but seldom",
    "call": "every system call of the machine pays",
    "wait": "waits of jobs that ask for it pay",
}
"""The cost class of a probe, in words."""

LIMIT_S = 3.0
"""The longest time that one check may take."""

BTF = Path("/sys/kernel/btf/vmlinux")
VENDORS = Path("/etc/OpenCL/vendors")
BUILD_TOOLS = {"clang": "clang", "bpftool": "bpftool", "pkg-config": "pkg-config libbpf-dev"}
"""The distribution packages of each program needed to build the eBPF part."""


def probe_report(agent_folder: Path | None = None) -> list[ProbeCheck]:
    """Run every check in a stable order, each for at most LIMIT_S; none raises.

    `agent_folder`: the folder in which a running agent writes the states of its sites, if any.
    """
    found: list[ProbeCheck] = []
    for id, check in _CHECKS.items():
        found += _bounded(id, check)
    return found + _bounded("probe.site", partial(site_checks, agent_folder))


def _bounded(id: str, check: Callable[[], list[ProbeCheck]]) -> list[ProbeCheck]:
    """Return the check's lines, or one line about its failure or timeout."""
    answer: list[ProbeCheck] = []

    def try_each() -> None:
        try:
            answer.extend(check())
        except (StokerError, OSError, ValueError) as error:
            answer.append(ProbeCheck(id, "WARN", f"could not be asked: {error}"))

    thread = threading.Thread(target=try_each, name=id, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    if thread.is_alive():
        return [ProbeCheck(id, "WARN", f"no answer within {LIMIT_S:g} s")]
    return answer


def _build() -> list[ProbeCheck]:
    try:
        from stoker.native import _bpf  # noqa: F401  # asked whether it loads
    except ImportError as error:
        absent = [names for tool, names in BUILD_TOOLS.items() if not _which(tool)]
        hint = f"apt-get install {' '.join(absent)}; " if absent else ""
        text = f"the eBPF part is not in this build: {error}"
        return [ProbeCheck("probe.build", "WARN", text, f"{hint}make build")]
    return [ProbeCheck("probe.build", "PASS", "the eBPF part loads")]


def _which(tool: str) -> str | None:
    return shutil.which(tool) or shutil.which(tool, path="/usr/sbin:/sbin:/usr/local/sbin")


def _btf() -> list[ProbeCheck]:
    if not BTF.exists():
        hint = "Use a kernel built with CONFIG_DEBUG_INFO_BTF"
        return [ProbeCheck("probe.btf", "WARN", f"{BTF} is missing: no eBPF probes", hint)]
    with BTF.open("rb") as file:
        known = file.read(2) in (b"\x9f\xeb", b"\xeb\x9f")
    if known:
        return [ProbeCheck("probe.btf", "PASS", f"{BTF}: {BTF.stat().st_size >> 10} KiB of types")]
    return [ProbeCheck("probe.btf", "WARN", f"{BTF} is no BTF: no eBPF probes")]


def _cgroup() -> list[ProbeCheck]:
    mount = cgroup2_mount(Path("/proc/self/mountinfo").read_text())
    if mount is None:
        text = "no cgroup v2 is mounted: threads of jobs cannot be told apart"
        return [
            ProbeCheck("probe.cgroup", "WARN", text, "mount -t cgroup2 none /sys/fs/cgroup/unified")
        ]
    try:
        cgroup_level(mount / "any" / "jobs")
    except StokerError as error:
        return [ProbeCheck("probe.cgroup", "WARN", error.message, error.hint)]
    return [ProbeCheck("probe.cgroup", "PASS", f"jobs can be told apart below {mount}")]


def cgroup2_mount(mountinfo: str) -> Path | None:
    """Return the mount point of cgroup v2 from the text of /proc/self/mountinfo."""
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if fields[fields.index("-") + 1] == "cgroup2":
            return Path(fields[4])
    return None


def _host() -> list[ProbeCheck]:
    states, cost = HostProbes.trial_measured(COST_WINDOW_S)
    return [host_check(state, cost) for state in states]


def host_check(state: ProbeState, cost: Cost) -> ProbeCheck:
    """Return a probe's state as a line: its result and cost, or the reason of its absence."""
    probe = next(probe for probe in HOST_PROBES if probe.id == state.id)
    id = f"probe.{state.id}"
    if state.state == "attached":
        return ProbeCheck(
            id, "PASS", f"{probe.gives}; {PAYS[probe.payer]}{_measured(state.id, cost)}"
        )
    if state.state == "off":
        return ProbeCheck(id, "PASS", f"{probe.gives}: off for cost: {state.reason}")
    said = "refused" if state.state == "refused" else "could not be asked"
    text = f"no {probe.gives}: {said}: {state.reason}"
    return ProbeCheck(id, "WARN", text, f"Needs {probe.needs}")


def _measured(id: str, cost: Cost) -> str:
    """Format the measured cost of a run of the probe's program for tasks in no job."""
    if cost.absent:
        return f"; cost not measured: {cost.absent}"
    run_ns, runs = (cost.programs or {}).get(id, (0, 0))
    if not runs:
        return "; not hit while it was measured"
    share = run_ns / cost.window_ns
    return f"; {run_ns / runs:.0f} ns a hit outside of jobs, {share:.2%} of a CPU just now"


def _opencl() -> list[ProbeCheck]:
    files = sorted(VENDORS.glob("*.icd")) if VENDORS.is_dir() else []
    if not files:
        text = f"no OpenCL driver in {VENDORS}"
        return [
            ProbeCheck("probe.opencl", "WARN", text, "apt-get install pocl-opencl-icd, or a GPU's")
        ]
    return [_driver(file) for file in files]


def _driver(file: Path) -> ProbeCheck:
    """Load one OpenCL driver in a process that may hang or crash."""
    library = file.read_text().strip()
    program = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    id = f"probe.opencl.{file.stem}"
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, library],
            capture_output=True,
            text=True,
            timeout=LIMIT_S - 0.5,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ProbeCheck(
            id, "WARN", f"{library} did not load in time", f"Remove {file} or repair it"
        )
    if done.returncode == 0:
        return ProbeCheck(id, "PASS", f"{library} loads")
    last = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
    return ProbeCheck(id, "WARN", f"{library} does not load: {last}", f"Remove {file} or repair it")


def _clocks() -> list[ProbeCheck]:
    return [_clock(row) for row in clock_table()]


def _clock(row: ClockRow) -> ProbeCheck:
    """Return one clock of the table; a clock that is set during the reading gives a warning."""
    id = f"probe.clock.{row.clock.lower()}"
    if row.offset_ns is None:
        return ProbeCheck(id, "WARN", f"{row.clock} is of no use: {row.method}")
    drift = "drift not known yet" if row.drift_ppb is None else f"drift {row.drift_ppb} ppb"
    text = f"{row.clock} {row.offset_ns:+d} ns to CLOCK_MONOTONIC, {drift}, +-{row.error_ns} ns"
    return ProbeCheck(id, "WARN" if row.steps else "PASS", text)


_CHECKS: dict[str, Callable[[], list[ProbeCheck]]] = {
    "probe.build": _build,
    "probe.btf": _btf,
    "probe.cgroup": _cgroup,
    "probe.host": _host,
    "probe.opencl": _opencl,
    "probe.cupti": cupti_checks,
    "probe.clock": _clocks,
}
