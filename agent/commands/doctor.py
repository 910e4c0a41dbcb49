# SPDX-License-Identifier: Apache-2.0
"""The checks of `stoker doctor`: parts that work on this machine, parts that do not, and the
remedy.

A check id never changes its meaning. PASS works; WARN means that something named is missing and the
rest works; FAIL means that `stoker up` or `stoker run` will not work. A check changes nothing on
the machine.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import os
import resource
import shutil
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from stoker.agent.state import gossip_files, metrics_config, state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import (
    broker_port,
    broker_setup,
    confine,
    leftover_cgroups,
    lock,
    log_rotation,
    own_users,
    pids,
    start_failure,
    start_options,
    state_check,
    told_status,
)
from stoker.mesh.broker.broker_program import broker_program
from stoker.mesh.connection.context import LOOPBACK
from stoker.mesh.gossip.membership import FAILED
from stoker.native.errors import StokerError

if TYPE_CHECKING:
    from stoker.mesh.wire.schema_telemetry import TelemetryList

Status = Literal["PASS", "WARN", "FAIL"]

DISK_BYTES_MIN = 1 << 30
SHM_BYTES_MIN = 256 << 20
NOFILE_MIN = 4096
NAMED_MAX = 4
"""The most checks of one status that the summary names."""
REFUSED_KEY = "Authorization Violation"
"""The broker's word to a key that it does not take."""
FOLDERS = ("agent", "mesh", "native", "probes", "scheduler", "tui")
PROGRAMS = ("stoker-spawner", "stoker-watchdog", "stoker-restore")
MODULES = {
    "_core": "nothing can be scheduled",
    "_trace": "GPU kernels are not traced",
    "_bpf": "no eBPF probes",
    "_calls": "calls into GPU libraries are not counted",
}


class Check(msgspec.Struct, frozen=True):
    """One line of the doctor's report."""

    id: str
    status: Status
    text: str
    hint: str = ""


def report(where: StateFolder) -> list[Check]:
    """Run every check, in a stable order; a check that raises is a FAIL with its error."""
    checks: list[Check] = []
    for name, check in _CHECKS.items():
        try:
            checks += check(where)
        except (StokerError, OSError, ImportError) as error:
            hint = getattr(error, "hint", "")
            text = getattr(error, "message", "") or f"the check failed: {error}"
            checks.append(Check(name, "FAIL", text, hint))
    return checks


def checks_of(name: str, where: StateFolder) -> list[Check]:
    """Run the checks of one entry of the table."""
    return list(_CHECKS[name](where))


def summary(checks: list[Check]) -> str:
    """Return in one line what needs somebody, failures first."""
    parts = []
    for status, verb in (("FAIL", "fail"), ("WARN", "warn")):
        ids = [check.id for check in checks if check.status == status]
        if ids:
            more = f" and {len(ids) - NAMED_MAX} more" if len(ids) > NAMED_MAX else ""
            ends = "s" if len(ids) == 1 else ""
            parts.append(f"{len(ids)} {verb}{ends}: {', '.join(ids[:NAMED_MAX])}{more}")
    return f"{len(checks)} checks: {'; '.join(parts) or 'everything works'}"


def lines(checks: list[Check], columns: int | None) -> Iterator[str]:
    """Yield what each check found and what would help, in columns if all of it has the room."""
    width = max(len(check.id) for check in checks)
    if columns and any(width + 8 + len(check.text) > columns for check in checks):
        width = 0
    for check in checks:
        yield f"{check.status}  {check.id:<{width}}  {check.text}"
        if check.hint and check.status != "PASS":
            yield f"{'':<{width + 8 if width else 6}}-> {check.hint}"


def exit_code(checks: list[Check]) -> int:
    """Return 0 if all checks PASS, 1 if some WARN, 2 if some FAIL."""
    statuses = {check.status for check in checks}
    return 2 if "FAIL" in statuses else 1 if "WARN" in statuses else 0


def _links(where: StateFolder) -> Iterator[Check]:
    package = Path(__file__).resolve().parents[2] / "src/stoker"
    if not package.is_dir():
        yield Check("install.links", "PASS", "installed from a wheel, no links needed")
        return
    broken = [name for name in FOLDERS if not (package / name).is_symlink()]
    if broken:
        yield Check(
            "install.links",
            "FAIL",
            f"{package / broken[0]} is a file and not a link: the checkout lost its links",
            "git config core.symlinks true && git checkout -- src/stoker; never from a zip archive",
        )
        return
    yield Check("install.links", "PASS", f"{len(FOLDERS)} links in {package}")


def _python(where: StateFolder) -> Iterator[Check]:
    version = sys.version.split()[0]
    headers = Path(sysconfig.get_paths()["include"], "Python.h")
    if headers.exists():
        yield Check("install.python", "PASS", f"Python {version} with headers")
        return
    yield Check(
        "install.python",
        "WARN",
        f"Python {version} without headers: the compiled parts cannot be built again",
        "apt-get install python3-dev",
    )


def _modules(where: StateFolder) -> Iterator[Check]:
    for name, cost in MODULES.items():
        id = f"build.{name.strip('_')}"
        try:
            importlib.import_module(f"stoker.native.{name}")
            yield Check(id, "PASS", f"stoker.native.{name} loads")
        except ImportError as error:
            status: Status = "FAIL" if name == "_core" else "WARN"
            yield Check(id, status, f"{cost}: {error}", "make build, and read build/build.log")


def _programs(where: StateFolder) -> Iterator[Check]:
    from stoker.native import paths

    for name in PROGRAMS:
        yield Check(f"build.{name.removeprefix('stoker-')}", "PASS", str(paths.program(name)))


def _tracer(where: StateFolder) -> Iterator[Check]:
    from stoker.native import paths

    try:
        found = paths.library("libstoker-opencl.so")
        yield Check("build.tracer", "PASS", str(found))
    except FileNotFoundError as error:
        yield Check("build.tracer", "WARN", f"OpenCL kernels are not traced: {error}")


def _broker(where: StateFolder) -> Iterator[Check]:
    version = broker_setup.check_broker()
    yield Check("broker.version", "PASS", f"nats-server {version} at {broker_program()}")


def _config(where: StateFolder) -> Iterator[Check]:
    """Check config.toml; what it says of the broker's program holds for the checks after this."""
    from stoker.agent.config import kept

    file = kept.path(where)
    if not where.root.exists() or not file.exists():
        yield Check("config.file", "PASS", "no config.toml: every setting has its default")
        return
    start_options.hand_on(kept.up_config(where))
    yield Check("config.file", "PASS", f"{file}: no fault")


def _state(where: StateFolder) -> Iterator[Check]:
    if not where.root.exists() or not state_folder.exists(where):
        yield Check("state.folder", "PASS", f"{where.root} is not set up yet: `stoker up` does")
        return
    cluster = state_folder.load(where)
    state_check.check_owners(where)
    if cluster.is_first or not cluster.waits:
        users = None if cluster.joined else own_users.load(where)
        state_check.check(where, users, cluster.admin)
    yield Check(
        "state.folder", "PASS", f"{where.root}, format {state_folder.FORMAT}, {cluster.cluster}"
    )


def _running(where: StateFolder) -> Iterator[Check]:
    found, held = pids.find(where), lock.holder(where) if where.root.exists() else None
    trees = leftover_cgroups.trees(where.instance)
    if held is not None:
        yield Check("node.running", "PASS", f"supervisor pid {held}; {', '.join(sorted(found))}")
    elif found or trees:
        what = [*sorted(found), *(str(tree) for tree in trees)]
        yield Check(
            "node.running",
            "WARN",
            f"no supervisor, but {', '.join(what)}",
            "`stoker up` adopts it, `stoker down` ends it",
        )
    else:
        yield Check("node.running", "PASS", "nothing runs")


def _port(where: StateFolder) -> Iterator[Check]:
    if lock.holder(where) is not None or not state_folder.exists(where):
        return
    cluster = state_folder.load(where)
    port = cluster.port
    if cluster.joined:
        yield Check("broker.port", "PASS", f"this node uses the broker at {cluster.url}")
        return
    if port and not broker_port.is_free(port, cluster.address or LOOPBACK):
        yield Check(
            "broker.port",
            "WARN",
            f"port {port} is in use by {broker_port.holder(port)}",
            "the next `stoker up` takes another one",
        )
        return
    yield Check("broker.port", "PASS", f"port {port} is free")


def _gossip(where: StateFolder) -> Iterator[Check]:
    """Check the gossip mesh; without it a cluster of two nodes gives no node up."""
    if not state_folder.exists(where):
        return
    cluster = state_folder.load(where)
    if unwanted := gossip_files.unwanted(where, cluster):
        yield Check("gossip.mesh", "PASS", f"no member of a gossip mesh: {unwanted}")
    elif lack := gossip_files.lack(where):
        hint = "Install Debian's package serf" if gossip_files.program() is None else ""
        yield Check("gossip.mesh", "WARN", f"no member of the gossip mesh: {lack}", hint)
    elif lock.holder(where) is None:
        yield Check("gossip.mesh", "PASS", f"{gossip_files.program()} starts with the node")
    else:
        yield _members(where)


def _members(where: StateFolder) -> Check:
    from stoker.agent.link import member_list

    try:
        rows = asyncio.run(member_list.listed(where))
    except StokerError as error:
        hint = f"Its log is {where.log / f'{gossip_files.SERF}.log'}"
        return Check("gossip.mesh", "WARN", error.message, hint)
    failed = [row.name for row in rows if row.state == FAILED]
    text = f"{len(rows)} members of the gossip mesh, {len(failed)} of them failed"
    if failed:
        names = ", ".join(failed[:NAMED_MAX])
        return Check("gossip.mesh", "WARN", f"{text}: {names}", "`stoker cluster members`")
    return Check("gossip.mesh", "PASS", text)


def _space(where: StateFolder) -> Iterator[Check]:
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


def _root(where: StateFolder) -> Iterator[Check]:
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


def _memory_order(where: StateFolder) -> Iterator[Check]:
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


def _limits(where: StateFolder) -> Iterator[Check]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
    few = hard != resource.RLIM_INFINITY and hard < NOFILE_MIN
    hint = "Raise LimitNOFILE= or ulimit -Hn" if few else ""
    yield Check("limits.nofile", "WARN" if few else "PASS", f"{text} open files", hint)


def _cgroups(where: StateFolder) -> Iterator[Check]:
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


def _devices(where: StateFolder) -> Iterator[Check]:
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


def _xids(where: StateFolder) -> Iterator[Check]:
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


def _opencl(where: StateFolder) -> Iterator[Check]:
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


def _power(where: StateFolder) -> Iterator[Check]:
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


def _scheduler(where: StateFolder) -> Iterator[Check]:
    """Check this host's scheduler by what it says of itself; a host that joined has none."""
    from stoker.agent.export import scheduler_metrics
    from stoker.mesh.wire.scheduler_figures import OUT_OF_ROSTER

    if lock.holder(where) is None or not state_folder.exists(where):
        return
    cluster = state_folder.load(where)
    if cluster.joined or cluster.waits:
        return
    if "scheduler" not in pids.find(where):
        yield _away(where)
        return
    found = scheduler_metrics.read(where.root / "scheduler", time.time_ns())
    if found is None:
        return
    if found.status == "ok":
        role = "leads" if found.leads else "follows"
        yield Check("scheduler.state", "PASS", f"{role} in term {found.term}, entry {found.index}")
        return
    hint = "The scheduler's log file tells more"
    if found.status.endswith(OUT_OF_ROSTER):
        hint = "It counts for no majority; a server that counts lets it in: stoker cluster admit"
    yield Check("scheduler.state", "WARN", found.status, hint)


def _away(where: StateFolder) -> Check:
    """Return why the scheduler does not run at this moment, by the end of its log file."""
    log = where.log / "scheduler.log"
    last = start_failure.last_error(log_rotation.tail(log)) or "its log file is empty"
    hint = f"It is started again by itself; if it ends again, do what {log} says"
    return Check("scheduler.state", "WARN", f"it does not run: {last}", hint)


def _agent(where: StateFolder) -> Iterator[Check]:
    """Check that this node's agent hears its scheduler, by what it told the supervisor last."""
    if lock.holder(where) is None or "agent" not in pids.find(where):
        return
    told = told_status.newest(where, "agent")
    if told == "ok":
        yield Check("agent.state", "PASS", "a scheduler answers this node")
    elif told and any(REFUSED_KEY in line for line in log_rotation.tail(where.log / "agent.log")):
        text = f"{told}: the cluster does not take this node's key"
        hint = "`stoker cluster keys` where the cluster was made tells if it was revoked; then"
        yield Check("agent.state", "WARN", text, f"{hint} this host joins again, in a new folder")
    elif told:
        hint = f"Jobs of this host freeze when its lease ends; {where.log / 'agent.log'} tells more"
        yield Check("agent.state", "WARN", told, hint)


def _telemetry(where: StateFolder) -> Iterator[Check]:
    """Check the streams that keep telemetry; nothing to check while the node does not run."""
    if lock.holder(where) is None:
        return
    if state_folder.has_joined(where) and not any(where.keys.glob("user-*")):
        text = "no user has a key on this host, so a server's doctor tells"
        yield Check("telemetry.streams", "PASS", text)
        return
    streams = asyncio.run(_telemetry_streams(where))
    for each in streams.streams:
        id = f"telemetry.{each.kind}"
        if each.why:
            yield Check(id, "WARN", f"not kept, only live: {each.why}")
            continue
        size, room = (each.bytes or 0) / (1 << 20), each.max_bytes >> 20
        back = (time.time_ns() - each.oldest_t_ns) / 1e9 if each.oldest_t_ns is not None else 0
        text = f"{each.messages} messages, {size:.1f} of {room} MiB, back to {back:.0f} s"
        yield Check(id, "PASS", f"{text}; {each.discarded} discarded to make room")
    if streams.dropped:
        text = f"{streams.dropped} decisions, outcomes or events were never published"
        yield Check("telemetry.dropped", "WARN", text, "The scheduler's log file tells why")


def _metrics(where: StateFolder) -> Iterator[Check]:
    """Check the metrics page by what the running agent says of it."""
    told = metrics_config.serving(where)
    if lock.holder(where) is None or told is None:
        return
    if told.address:
        yield Check("metrics.page", "PASS", f"http://{told.address}/metrics")
    elif told.why == metrics_config.OFF:
        yield Check("metrics.page", "PASS", "off")
    else:
        hint = "Give another address: [metrics] in config.toml, or `stoker up --metrics`"
        yield Check("metrics.page", "WARN", told.why, hint)


async def _telemetry_streams(where: StateFolder) -> TelemetryList:
    from stoker.mesh.client.client import Client

    async with Client.open(str(where.root), patience_s=2.0) as client:
        return await client.telemetry_streams()


def _probes(where: StateFolder) -> Iterator[Check]:
    from stoker.probes.doctor.probe_doctor import probe_report

    for row in probe_report(where.agent):
        yield Check(row.id, row.status, row.text, row.hint)


_CHECKS: dict[str, Callable[[StateFolder], Iterator[Check]]] = {
    "install.links": _links,
    "install.python": _python,
    "build.modules": _modules,
    "build.programs": _programs,
    "build.tracer": _tracer,
    "config.file": _config,
    "broker.version": _broker,
    "broker.port": _port,
    "state.folder": _state,
    "node.running": _running,
    "gossip.mesh": _gossip,
    "disk.space": _space,
    "rights.root": _root,
    "limits.nofile": _limits,
    "memory.order": _memory_order,
    "cgroup.v2": _cgroups,
    "device.any": _devices,
    "health.xids": _xids,
    "opencl.loader": _opencl,
    "power.record": _power,
    "scheduler.state": _scheduler,
    "agent.state": _agent,
    "telemetry.streams": _telemetry,
    "metrics.page": _metrics,
    "probe.any": _probes,
}
