# SPDX-License-Identifier: Apache-2.0
"""The style's teeth: what docs say about every file, held against every tracked file.

A rule here is one that a reader can check by eye and a machine cannot mistake. Exceptions are
named with their reason, and an exception that is no longer needed fails as well.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.statements import statements

ROOT = Path(__file__).parents[1]
COLUMNS, FILE_LINES, FUNCTION_LINES = 100, 600, 70
C_SUFFIXES = {".c", ".h", ".cpp"}
PYTHON_SUFFIXES = {".py", ".pyi"}
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX|NotImplemented" r"Error)\b")
PRAGMA = re.compile(r"  # (?:type: ignore|noqa)\b.*$")
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")

ACROSS = {
    "tests/agent/sim/test_liveness.py": "agent/sim/world.py: its rule of liveness",
    "tests/agent/sim/test_scenarios_authority.py": "stories of who leads, on the simulated cluster",
    "tests/agent/sim/test_scenarios_eviction.py": "stories of evictions, on the simulated cluster",
    "tests/agent/sim/test_scenarios_gangs.py": "stories of gangs, on the simulated cluster",
    "tests/agent/sim/test_scenarios_growth.py": "stories of growth, on the simulated cluster",
    "tests/agent/sim/test_scenarios_handover.py": "stories of leaders that stop, on that cluster",
    "tests/agent/sim/test_scenarios_roster.py": "stories of the roster, on the simulated cluster",
    "tests/agent/sim/test_scenarios_witnesses.py": "stories of one left behind, on that cluster",
    "tests/agent/sim/test_scenarios_host.py": "stories of one host: lease file, freezer, broker",
    "tests/agent/sim/test_scenarios_ends.py": "stories of ends in order, on the simulated cluster",
    "tests/agent/sim/test_scenarios_leases.py": "stories of leases, on the simulated cluster",
    "tests/agent/sim/test_scenarios_log.py": "stories of the log, on the simulated cluster",
    "tests/agent/sim/test_scenarios_memory.py": "stories of lost memory, on the simulated cluster",
    "tests/agent/sim/test_scenarios_moves.py": "stories of moves, on the simulated cluster",
    "tests/agent/sim/test_scenarios_page.py": "docs/developer/scenarios.md and every story",
    "tests/agent/sim/test_scenarios_reads.py": "stories of reads, on the simulated cluster",
    "tests/agent/sim/test_scenarios_terms.py": "stories of terms, on the simulated cluster",
    "tests/agent/sim/test_scenarios_upgrade.py": "stories of builds and feature levels",
    "tests/mesh/log/test_log_copies.py": "a stream with a copy at each of three brokers",
    "tests/product/test_eviction.py": "a node that falls silent, on real processes",
    "tests/product/test_grown_from_one.py": "one server becomes three, on real processes",
    "tests/product/test_gossip.py": "two hosts with real Serf agents, of which one dies",
    "tests/product/test_forged.py": "forged entries, answers and a genesis, on a live node",
    "tests/product/test_gangs.py": "gangs on one node, from the command line to the processes",
    "tests/product/test_audit.py": "the trail of a live node's log, and changes betrayed",
    "tests/product/test_exported.py": "metrics and traces of a live node, at a collector",
    "tests/product/test_prometheus.py": "the metrics page of a live node, and Prometheus",
    "tests/product/test_recordings.py": "recordings of a whole node, made, shared and replayed",
    "tests/product/test_gang_ranks.py": "late ranks of gangs over several real nodes",
    "tests/product/test_launchers.py": "gangs under torchrun and Open MPI 5",
    "tests/product/test_gangs_on_nodes.py": "gangs over several real nodes",
    "tests/product/test_moves.py": "jobs that move off a drained node to another host",
    "tests/product/test_node_eviction.py": "a node of two that is given up, or stopped in order",
    "tests/product/test_node_removal.py": "nodes that leave three schedulers for good",
    "tests/product/test_numa.py": "the binding of jobs, from the command line to what they see",
    "tests/product/test_placements.py": "the words for a place, from the command line to devices",
    "tests/product/test_placements_on_nodes.py": "placements that choose between nodes",
    "tests/product/test_spooled_output.py": "output that outlives its host, read from the brokers",
    "tests/product/test_waiting_node.py": "a node that starts while its cluster is away",
    "tests/product/test_upgrade_from_before.py": "a cluster of an earlier build gets this one",
    "tests/product/test_upgraded_cluster.py": "servers of two versions, one by one",
    "tests/product/test_first_cluster.py": "the operator page from three bare hosts, typed there",
    "tests/product/test_grown_cluster.py": "one server becomes three by a backup",
    "tests/product/test_shrunk_cluster.py": "three servers become one by a backup",
    "tests/product/test_grown_online.py": "a fourth server enters a cluster that runs",
    "tests/product/test_restored_cluster.py": "a cluster begun again with its backup",
    "tests/product/test_revoked_keys.py": "keys that are taken back while a cluster runs",
    "tests/product/test_scoring_functions.py": "from the file of a function to placements",
    "tests/product/test_servers.py": "three brokers, three schedulers and real agents",
    "tests/product/test_first_hour.py": "docs/user/quickstart.md, and what new users are told",
    "tests/product/test_verdicts.py": "the reason in every list, from a job's trace to the verbs",
    "tests/test_tidy.py": "every tracked file",
    "tests/test_words.py": "docs/developer/glossary.md and every name",
    "tests/test_prose.py": "every comment",
    "tests/test_walks.py": "docs/developer/walks.md and the functions that it names",
    "tests/test_imports.py": "what importing a folder loads",
    "tests/test_examples.py": "examples/",
    "tests/test_docs.py": "docs/, README.md and CONTRIBUTING.md",
    "tests/test_readme.py": "README.md and the commands that it names",
    "tests/product/test_conditions.py": "conditions on devices, from drivers to placement",
    "tests/product/test_devices.py": "drivers, the agent, the scheduler, the verbs: a whole node",
    "tests/product/test_health.py": "signals of cards, the agent, the log: a whole node",
    "tests/product/test_squatter.py": "a local user on the port of a broker that died",
    "tests/probes/test_bpf_sources.py": "probes/bpf/",
    "tests/probes/test_cupti_parts.py": "probes/cupti/: joins, buffers",
    "tests/probes/test_cupti.py": "probes/cupti/ on a simulated driver and a simulated CUPTI",
    "tests/probes/test_tracer_plan.py": "probes/tracer/plan.c",
    "tests/probes/test_thread_clock.py": "probes/tracer/thread_clock.c",
    "tests/probes/test_tracer_driver.py": "probes/tracer/driver.c",
    "tests/probes/test_governed_totals.py": "probes/tracer/ in every tracer, with the fold",
    "tests/probes/test_rocprofiler.py": "probes/rocprofiler/ on a simulated runtime",
    "tests/probes/test_levelzero.py": "probes/levelzero/ on a simulated loader",
    "tests/tui/test_docs.py": "docs/user and docs/operator, against the verbs",
    "tests/tui/test_live.py": "the command line on a whole node",
    "tests/agent/test_up.py": "a whole node: up, down and what they leave",
    "tests/ci/test_setup.py": ".ci/setup",
    "tests/agent/devices/test_troubles.py": "states of sick cards through the vendors' bindings",
    "tests/agent/devices/test_simulated.py": "cards of every profile through the vendors' bindings",
    "tests/agent/test_hostile_job.py": "a job that means harm, against spawner, shim and gate",
    "tests/mesh/test_disk_full.py": "broker, log and scheduler on a full disk",
    "tests/probes/test_tracer_modes.py": "modes of the tracers inside of running programs",
    "tests/product/test_collectives.py": "waits of ranks, against what they say themselves",
    "tests/product/test_nccl.py": "waits of ranks of the simulated NCCL, against what they say",
    "tests/product/test_accounting.py": "causes of waiting, against programs that wait",
    "tests/product/test_python_waits.py": "causes of waiting, against Python programs that wait",
    "tests/product/test_mig.py": "MIG instances, from the driver to a job's trace",
    "tests/product/test_throttled.py": "throttled time: drivers and the kernel, to the report",
    "tests/product/test_cuda.py": "a CUDA program on a simulated card, from its start to its trace",
    "tests/product/test_idle_jobs.py": "idle jobs, from their verdict to a rule that ends them",
    "tests/product/test_alerts.py": "alerts, from a simulated reading to every sink",
    "tests/product/test_alert_actions.py": "rules that act, from an idle card to its job",
    "tests/product/test_attempts.py": "further attempts, arrays, queues and labels of a whole node",
    "tests/product/test_bad_input.py": "bad input at every door of a whole node",
    "tests/product/test_floods.py": "floods by one user of a whole node, and another user",
    "tests/product/test_fair_order.py": "one user's flood and another user's job on a whole node",
    "tests/product/test_faults.py": "kills of every process of a node with jobs",
    "tests/product/test_hidden.py": "jobs that take their tracer away, on a whole node",
    "tests/product/test_isolation.py": "two users of a whole node",
    "tests/product/test_launches.py": "causes of waiting, against programs that launch in odd ways",
    "tests/product/test_cluster.py": "limits, users and genesis of a whole node, in its log",
    "tests/product/test_other_hosts.py": "a whole node that another host reaches and joins",
    "tests/agent/join/test_joined_folder.py": "the folder of a node that joined, for every verb",
    "tests/mesh/server/test_several_schedulers.py": "processes that share a log and lead in turn",
    "tests/product/test_outages.py": "a whole node whose scheduler, log or state goes away",
    "tests/product/test_power.py": "the power loop of a whole node, killed",
    "tests/product/test_settings.py": "settings, from config.toml to the processes of a node",
    "tests/product/test_signals.py": "from a simulated reading to a placement and its explanation",
    "tests/product/test_lifecycle.py": "jobs and a whole node from start to end",
    "tests/product/test_retention.py": "thousands of jobs through a small log",
    "tests/product/test_switching.py": "traces of running jobs switched, cut off, scribbled over",
    "tests/product/test_local_bus.py": "the node-local bus of a whole node",
    "tests/product/test_telemetry.py": "telemetry of a whole node: kept, followed, flooded",
    "tests/product/test_cluster_of_servers.py": "three servers on hosts of their own",
    "tests/product/test_top.py": "the live view on a real terminal, on a whole node",
    "tests/product/test_tracing.py": "traces of programs that are not the product's",
    "tests/product/test_windows.py": "windows and modes of running jobs on a whole node",
}
"""Suites that mirror no single module -> what they are about."""


def tracked() -> list[Path]:
    """Files of the checkout, relative to its root; links are listed, not followed."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        return []
    argv = ["git", "-C", str(ROOT), "ls-files", "-z"]
    names = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return [Path(name) for name in names.split("\0") if name and _there(ROOT / name)]


def _there(path: Path) -> bool:
    """A file removed but not yet committed is not looked at."""
    return path.is_symlink() or path.exists()


FILES = tracked()
SOURCES = [
    path
    for path in FILES
    if path.suffix in C_SUFFIXES | PYTHON_SUFFIXES and not (ROOT / path).is_symlink()
]
PYTHON = [path for path in SOURCES if path.suffix == ".py"]
C = [path for path in SOURCES if path.suffix in C_SUFFIXES]
TESTS = [path for path in PYTHON if path.name.startswith("test_") and path.parts[0] == "tests"]


def test_there_is_a_checkout_to_look_at() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: which files belong to the product is not known")
    assert len(SOURCES) > 50


def text_of(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def longest(lines: list[str]) -> Iterator[tuple[int, int]]:
    """(line number, columns) of lines that are too wide; a tab goes to the next eighth column.

    A note to a checker at the end of a line does not count: it cannot stand elsewhere.
    """
    for number, line in enumerate(lines, 1):
        line = PRAGMA.sub("", line)  # noqa: PLW2901
        if (width := len(line.expandtabs(8))) > COLUMNS:
            yield number, width


def test_no_line_is_too_wide() -> None:
    assert [
        f"{path}:{number}: {width} columns"
        for path in SOURCES
        for number, width in longest(text_of(path).splitlines())
    ] == []


def test_no_file_is_too_long() -> None:
    sizes = {path: len(text_of(path).splitlines()) for path in SOURCES}
    assert [f"{path}: {lines}" for path, lines in sizes.items() if lines > FILE_LINES] == []


def python_functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in statements(ast.parse(text_of(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def c_functions(path: Path) -> Iterator[tuple[str, int]]:
    """Find functions by the brace style: their braces alone stand in the first column."""
    opened = 0
    lines = text_of(path).splitlines()
    for number, line in enumerate(lines, 1):
        if line == "{":
            opened = number
        elif line.startswith("}") and opened:
            head = lines[opened - 2].strip()
            if not re.match(r"class|struct|union|enum|namespace", head) or head.endswith(")"):
                yield head, number - opened + 1
            opened = 0


def test_no_function_is_too_long() -> None:
    found = [(path, *each) for path in PYTHON for each in python_functions(path)]
    found += [(path, *each) for path in C for each in c_functions(path)]
    assert [f"{p}: {name}: {lines}" for p, name, lines in found if lines > FUNCTION_LINES] == []


DOCSTRING = re.compile(r'(?:#[^\n]*\n|\s)*"""\S')
"""The beginning of a module that opens with its docstring."""


def opening_fault(path: Path) -> str:
    """The fault in how a file opens, or nothing."""
    text = text_of(path)
    lines = text.splitlines()
    if not text.strip():
        return "is empty"
    if not any("SPDX-License-Identifier: " in line for line in lines[:2]):
        return "does not open with its licence"
    if path.suffix == ".py":
        return "" if DOCSTRING.match(text) else "has no docstring"
    said = [line for line in lines[1:6] if re.match(r"(?: \*|//|/\*|#|\"\"\") ?\w[\w:-]* ", line)]
    by_header = path.suffix == ".c" and path.with_suffix(".h") in FILES
    return "" if said or by_header else "does not say what it is, nor has it a header that does"


def test_every_source_says_what_it_is() -> None:
    faults = {path: opening_fault(path) for path in SOURCES}
    assert [f"{path} {fault}" for path, fault in faults.items() if fault] == []


def test_nothing_is_left_unfinished() -> None:
    found = []
    for path in FILES:
        if (ROOT / path).is_symlink() or path.name == "LICENSE":
            continue
        try:
            lines = text_of(path).splitlines()
        except UnicodeDecodeError:  # a picture or another binary
            continue
        found += [
            f"{path}:{number}: {line.strip()}"
            for number, line in enumerate(lines, 1)
            if UNFINISHED.search(line)
        ]
    assert found == []


def test_no_link_leads_nowhere() -> None:
    broken = [str(path) for path in FILES if not (ROOT / path).exists()]
    for page in (path for path in FILES if path.suffix == ".md"):
        for target in LINK.findall(text_of(page)):
            if re.match(r"[a-z]+:", target):
                continue  # somewhere on the net: not looked up
            if not (ROOT / page.parent / target).exists():
                broken.append(f"{page} -> {target}")
    assert broken == []


def mirrored(path: Path) -> bool:
    """tests/a/test_b.py and test_b_aspect.py belong to a/b.py, tests/native/a/ to native/a/."""
    folder = Path(*path.parts[1:-1])
    if folder.parts[:1] == ("native",):
        return (ROOT / folder).is_dir() or (ROOT / "native" / folder.name).is_dir()
    words = path.stem.removeprefix("test_").split("_")
    stems = ["_".join(words[:count]) for count in range(len(words), 0, -1)]
    places = [folder] if folder.parts else [Path("src/stoker")]
    return any((ROOT / place / f"{stem}.py").exists() for place in places for stem in stems)


def test_every_test_mirrors_a_module_or_says_what_it_spans() -> None:
    lost = [str(path) for path in TESTS if not mirrored(path) and str(path) not in ACROSS]
    assert lost == []


def test_no_exception_outlives_its_reason() -> None:
    names = {str(path) for path in TESTS}
    assert [name for name in ACROSS if name in names and mirrored(Path(name))] == []
