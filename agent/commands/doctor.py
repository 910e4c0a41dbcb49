# SPDX-License-Identifier: Apache-2.0
"""The checks of `stoker doctor`: parts that work on this machine, parts that do not, and the
remedy.

A check id never changes its meaning. PASS works; WARN means that something named is missing and the
rest works; FAIL means that `stoker up` or `stoker run` will not work. A check changes nothing on
the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stoker.agent.commands import install_checks, machine_checks, node_checks
from stoker.agent.commands.doctor_check import Check
from stoker.agent.state.state_folder import StateFolder
from stoker.native.errors import StokerError

NAMED_MAX = 4
"""The most checks of one status that the summary names."""


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


_CHECKS: dict[str, Callable[[StateFolder], Iterator[Check]]] = {
    "install.links": install_checks.links,
    "install.python": install_checks.python,
    "build.modules": install_checks.modules,
    "build.programs": install_checks.programs,
    "build.tracer": install_checks.tracer,
    "config.file": node_checks.config,
    "broker.version": install_checks.broker,
    "broker.port": node_checks.port,
    "state.folder": node_checks.state,
    "node.running": node_checks.running,
    "gossip.mesh": node_checks.gossip,
    "disk.space": machine_checks.space,
    "rights.root": machine_checks.root,
    "limits.nofile": machine_checks.limits,
    "memory.order": machine_checks.memory_order,
    "cgroup.v2": machine_checks.cgroups,
    "device.any": machine_checks.devices,
    "health.xids": machine_checks.xids,
    "opencl.loader": machine_checks.opencl,
    "power.record": machine_checks.power,
    "scheduler.state": node_checks.scheduler,
    "agent.state": node_checks.agent,
    "telemetry.streams": node_checks.telemetry,
    "metrics.page": node_checks.metrics,
    "probe.any": machine_checks.probes,
}
