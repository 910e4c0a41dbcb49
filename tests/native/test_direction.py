# SPDX-License-Identifier: Apache-2.0
"""C includes point down: which folder may include which, and no circle between files.

A header, its private header (`x_parts.h`) and the source of the same name are one file here.
`ALLOWED` names for each folder (or file) the folders that it may include besides itself;
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.test_tidy import ROOT, C

CORE = "native/core"
LEDGER = (CORE, "native/core/state")
POLICY = (*LEDGER, "native/core/ledger")
COMMAND = (*POLICY, "native/core/policy")
DECIDE = (*COMMAND, "native/core/command")

RECORDS = "native/records"
BPF = "native/bpf"
DEVICES = "native/devices"
SIM = "native/sim"
TRACER = "probes/tracer"
RUNNER = "native/runner"
SITE, WIRE = f"{RUNNER}/site", f"{RUNNER}/wire"
JOURNAL, CGROUP, GATE, SHIM = (f"{RUNNER}/{name}" for name in ("journal", "cgroup", "gate", "shim"))
TRACE = "native/trace"
CAUSES, STATISTICS, FOLD = (f"{TRACE}/{name}" for name in ("causes", "statistics", "fold"))
JOB = f"{TRACE}/job"

ALLOWED: dict[str, tuple[str, ...]] = {
    RECORDS: (),
    "native/clocks": (),
    f"{BPF}/catalogue": (RECORDS,),
    f"{BPF}/kernel": (),
    f"{BPF}/threads": (RECORDS,),
    f"{BPF}/host": (RECORDS, f"{BPF}/catalogue", f"{BPF}/kernel", f"{BPF}/threads"),
    f"{BPF}/calls": (RECORDS, f"{BPF}/catalogue", f"{BPF}/kernel"),
    BPF: (f"{BPF}/host", f"{BPF}/calls", f"{BPF}/threads"),
    "probes/bpf": (RECORDS,),
    SITE: (),
    WIRE: (),
    JOURNAL: (WIRE,),
    CGROUP: (SITE, WIRE),
    GATE: (SITE, WIRE),
    SHIM: (SITE, WIRE, JOURNAL, CGROUP, GATE),
    f"{RUNNER}/spawner": (SITE, WIRE, JOURNAL, CGROUP, GATE, SHIM),
    f"{RUNNER}/watchdog": (SITE,),
    CAUSES: (),
    f"{TRACE}/peers": (RECORDS,),
    STATISTICS: (),
    FOLD: (RECORDS, CAUSES, STATISTICS),
    JOB: (RECORDS, CAUSES, STATISTICS, FOLD),
    f"{TRACE}/timeline": (JOB,),
    TRACE: (RECORDS, JOB, CAUSES, f"{TRACE}/peers", f"{TRACE}/timeline"),
    TRACER: (RECORDS, "native/clocks"),
    "probes/clockcheck": (RECORDS, TRACER),
    "probes/cupti": (RECORDS, TRACER),
    "probes/levelzero": (RECORDS, TRACER, "native/clocks"),
    "probes/opencl": (RECORDS, TRACER),
    "probes/rocprofiler": (RECORDS, TRACER, "native/clocks"),
    "probes/simcl": (TRACER,),
    DEVICES: (),
    f"{DEVICES}/amd": (DEVICES,),
    f"{DEVICES}/intel": (DEVICES,),
    f"{DEVICES}/nvidia": (DEVICES,),
    "native/power": (DEVICES, SITE, f"{RUNNER}/watchdog"),
    f"{SIM}/card": (),
    f"{SIM}/node": (f"{SIM}/card",),
    SIM: (f"{SIM}/card", f"{SIM}/node"),
    f"{SIM}/amdsmi": (f"{SIM}/card", f"{SIM}/node"),
    f"{SIM}/cuda": (f"{SIM}/card", f"{SIM}/node"),
    f"{SIM}/cupti": (f"{SIM}/cuda",),
    f"{SIM}/date": (),
    f"{SIM}/levelzero": (f"{SIM}/card", f"{SIM}/node"),
    f"{SIM}/nccl": (f"{SIM}/cuda",),
    f"{SIM}/nvml": (f"{SIM}/card", f"{SIM}/node"),
    CORE: (),
    "native/core/state": (CORE,),
    "native/core/ledger": LEDGER,
    "native/core/policy": POLICY,
    "native/core/command": COMMAND,
    "native/core/decide": DECIDE,
    "native/core/snapshot": DECIDE,
    "native/core/explain": (*DECIDE, "native/core/decide"),
    "native/core/bench": (*DECIDE, "native/core/decide"),
    "native/core/bind.cpp": (CORE, "native/core/bench"),
}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
ROOTS = ("native", "probes", "")


def sources() -> list[Path]:
    """The product's own C files; the kernel's generated type headers are none."""
    return [
        path for path in C if path.parts[0] in ("native", "probes") and "vmlinux" not in path.parts
    ]


def included(path: Path) -> list[Path]:
    """Files of the checkout that this one includes; what a build generates is not among them."""
    found = []
    for name in INCLUDE.findall((ROOT / path).read_text()):
        places = [path.parent / name, *(Path(root) / name for root in ROOTS)]
        found += [place for place in places if (ROOT / place).is_file()][:1]
    return found


def refusals(path: Path, targets: Iterable[Path]) -> list[str]:
    """Each include that the table does not allow, as one line."""
    folder = str(path.parent)
    allowed = {folder, *ALLOWED.get(str(path), ALLOWED.get(folder, ()))}
    return [f"{path} includes {to}" for to in targets if str(to.parent) not in allowed]


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """The nodes of one circle, in order, or an empty list."""
    done: set[str] = set()

    def walk(node: str, way: list[str]) -> list[str]:
        if node in way:
            return [*way[way.index(node) :], node]
        if node in done:
            return []
        for to in sorted(graph.get(node, ())):
            if found := walk(to, [*way, node]):
                return found
        done.add(node)
        return []

    for node in sorted(graph):
        if found := walk(node, []):
            return found
    return []


def test_every_folder_has_a_direction() -> None:
    files = sources()
    folders = {str(path.parent) for path in files}
    assert folders - ALLOWED.keys() == set()
    assert {name for name in ALLOWED if not (ROOT / name).exists()} == set()


def test_includes_point_down() -> None:
    lines = [line for path in sources() for line in refusals(path, included(path))]
    assert lines == []


def unit_of(path: Path) -> str:
    """A source, its header and its private header are one unit."""
    return str(path.with_suffix("")).removesuffix("_parts")


def test_no_files_include_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for path in sources():
        unit = unit_of(path)
        units = {unit_of(to) for to in included(path)}
        graph.setdefault(unit, set()).update(units - {unit})
    assert len(graph) > 30
    assert circle(graph) == []


def test_folders_allow_each_other_in_no_circle() -> None:
    assert circle({name: set(allowed) for name, allowed in ALLOWED.items()}) == []


def test_an_upward_include_is_refused() -> None:
    journal, score = Path("native/core/state/journal.h"), Path("native/core/policy/score.h")
    assert refusals(journal, [score]) == [f"{journal} includes {score}"]
    assert refusals(score, [journal]) == []


def test_a_circle_of_files_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
