# SPDX-License-Identifier: Apache-2.0
"""The doctor's lines about probe sites: each call's site, the cost of a hit, and the decision.

With a running agent they show its states, otherwise the plan for the libraries of this machine.
Probes are attached only to functions of our own, to measure the cost of a hit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from stoker.native.errors import NotSupported, StokerError
from stoker.probes.calls.call_probes import CallProbes
from stoker.probes.calls.call_records import CallLimits, CallState
from stoker.probes.calls.call_targets import LIBRARIES, TARGETS
from stoker.probes.calls.elf import ElfFile
from stoker.probes.calls.probe_sites import Call, SiteDecision, SiteState, choose, find_calls
from stoker.probes.calls.site_report import FILE, load
from stoker.probes.calls.trap_cost import ELSEWHERE, TrapCosts, measure
from stoker.probes.calls.trap_cost import load as load_costs
from stoker.probes.catalogue import ProbeState
from stoker.probes.doctor.check_report import ProbeCheck, Status

COSTS_FILE = "trap-costs.json"
"""The file of the measured costs in the agent's state folder."""

FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/lib",
)
"""The folders of drivers and NCCL, in the order of the search."""

AS_IT_SHOULD_BE: frozenset[SiteState] = frozenset({"attached", "sampled", "off", "absent"})
"""The states that are no fault of this machine; a site may be off for its cost."""


def site_checks(agent_folder: Path | None) -> list[ProbeCheck]:
    """Return lines for the programs, for the costs and for each call."""
    report = load(agent_folder / FILE) if agent_folder else None
    costs, unmeasured = _costs(agent_folder)
    checks = [_programs(report.probe if report else _loaded()), _cost_check(costs, unmeasured)]
    if report is not None and report.states:
        return checks + _attached(report.states)
    return checks + [check for start in LIBRARIES for check in _planned(start, costs)]


def _loaded() -> ProbeState:
    probes = CallProbes(ELSEWHERE)
    try:
        return probes.load()
    finally:
        probes.close()


def _programs(probe: ProbeState) -> ProbeCheck:
    gives = "counts and times of calls into CUDA's driver and NCCL"
    if probe.state == "attached":
        return ProbeCheck(f"probe.{probe.id}", "PASS", f"{gives}: the programs load; jobs pay")
    said = "refused" if probe.state == "refused" else "could not be asked"
    hint = "Needs uprobes, BTF, task storage (Linux 5.12), CAP_BPF and CAP_PERFMON"
    return ProbeCheck(f"probe.{probe.id}", "WARN", f"no {gives}: {said}: {probe.reason}", hint)


def _costs(agent_folder: Path | None) -> tuple[TrapCosts, str]:
    kept = load_costs(agent_folder / COSTS_FILE) if agent_folder else None
    if kept is not None:
        return kept, ""
    try:
        return measure(), ""
    except NotSupported as error:
        return ELSEWHERE, error.message


def _cost_check(costs: TrapCosts, unmeasured: str) -> ProbeCheck:
    prices = ", ".join(f"{trap} {ns}" for trap, ns in costs.both_ns.items())
    text = f"ns of a hit at entry and return by first instruction, {costs.source}: {prices}"
    return ProbeCheck("probe.site.cost", "WARN" if unmeasured else "PASS", text, unmeasured)


# --- what an agent has attached -------------------------------------------------------------------


def _attached(states: Iterable[CallState]) -> list[ProbeCheck]:
    """Return one line for each call, with its different states in jobs and copies."""
    ordered = sorted(states, key=attrgetter("id"))
    return [_call(id, list(same)) for id, same in groupby(ordered, key=attrgetter("id"))]


def _call(id: str, states: list[CallState]) -> ProbeCheck:
    said: dict[str, list[CallState]] = {}
    for state in states:
        where = f" in {state.library}" if state.library else ""
        price = f"; {state.trap}, {_price(state.hit_ns)}" if state.trap else ""
        part = f" {state.duty_ppm / 1e4:g} % of the time" if state.state == "sampled" else ""
        said.setdefault(f"{state.state}{part}{where}{price}: {state.reason}", []).append(state)
    text = " | ".join(
        f"{what} ({sum(s.processes for s in same)} processes, {len({s.job for s in same})} jobs)"
        for what, same in said.items()
    )
    good = all(state.state in AS_IT_SHOULD_BE for state in states)
    return ProbeCheck(f"probe.site.{id}", "PASS" if good else "WARN", text)


# --- what would be done here ----------------------------------------------------------------------


def _planned(start: str, costs: TrapCosts) -> list[ProbeCheck]:
    path = _installed(start)
    name = start.removeprefix("lib").removesuffix(".so")
    if path is None:
        text = f"no {start} in {', '.join(FOLDERS)}: its calls are found in the jobs that map it"
        return [ProbeCheck(f"probe.site.{name}", "PASS", text)]
    mine = [target for target in TARGETS if target.library == start]
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return [ProbeCheck(f"probe.site.{name}", "WARN", f"{path}: {error.strerror}")]
    try:
        calls = find_calls(ElfFile(fd, str(path)), mine)
    except StokerError as error:
        return [ProbeCheck(f"probe.site.{name}", "WARN", error.message)]
    finally:
        os.close(fd)
    decisions = choose(calls, CallLimits().budget_ppm, costs)
    return [_plan(call, each, path) for call, each in zip(calls, decisions, strict=True)]


def _plan(call: Call, decision: SiteDecision, path: Path) -> ProbeCheck:
    would = {"attached": "would be attached", "sampled": "would be sampled", "off": "would be off"}
    status: Status = "PASS" if decision.state in AS_IT_SHOULD_BE else "WARN"
    price = f"; {decision.trap}, {_price(decision.hit_ns)}" if decision.trap else ""
    said = would.get(decision.state, decision.state)
    text = f"{said} in {path}{price}, planned for {decision.rate:g} calls a second"
    return ProbeCheck(f"probe.site.{call.target.id}", status, f"{text}: {decision.reason}")


def _price(hit_ns: int | None) -> str:
    return "cost not known" if hit_ns is None else f"{hit_ns} ns a hit"


def _installed(start: str) -> Path | None:
    for folder in FOLDERS:
        for path in sorted(Path(folder).glob(f"{start}.*")):
            return path
    return None
