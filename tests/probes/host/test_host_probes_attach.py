# SPDX-License-Identifier: Apache-2.0
"""Attaching and closing: what is left behind, and what is said where it is not allowed."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.probes.catalogue import HOST_PROBES, ProbeState
from stoker.probes.host.host_probes import HostLimits, HostProbes
from tests.probes.bpf_objects import listed
from tests.probes.groups import UNTIL_ASKED, Groups, as_expected, eventually, require_root

needs_bpf = pytest.mark.needs_bpf

Attach = Callable[..., HostProbes]


def held() -> set[tuple[str, int]]:
    """(kind, id) of every BPF object that this process holds a descriptor of."""
    found = set()
    for info in Path("/proc/self/fdinfo").iterdir():
        try:
            text = info.read_text()
        except OSError:  # the directory's own descriptor
            continue
        for kind, number in re.findall(r"^(prog|map|link|btf)_id:\s*(\d+)$", text, re.M):
            found.add((kind, int(number)))
    return found


def alive() -> set[tuple[str, int]]:
    """(kind, id) of every BPF object that the kernel has, whoever made it."""
    kinds = ("prog", "map", "link", "btf")
    return {(kind, each["id"]) for kind in kinds for each in listed(kind)}


@needs_bpf
def test_closing_leaves_no_program_map_or_link(groups: Groups, attach: Attach) -> None:
    before = held()
    probes = attach()
    probes.begin_cost()  # a measuring window is closed as well
    made = held() - before
    assert {kind for kind, _ in made} >= {"prog", "map", "link"}
    assert len([kind for kind, _ in made if kind == "link"]) >= 29
    assert {each for each in made if each[0] != "btf"} <= alive()
    probes.close()
    assert held() <= before
    eventually(lambda: not made & alive())  # the kernel frees programs after a grace period


@needs_bpf
def test_after_close_everything_answers_as_if_never_attached(
    groups: Groups, attach: Attach
) -> None:
    probes, job = attach(), groups.job()
    probes.follow(job.id, full=True)
    probes.close()
    probes.close()
    assert {(state.state, state.reason) for state in probes.states} == {("unknown", "closed")}
    assert probes.read(job.id).absent == "closed"
    assert (probes.read_all(), probes.spans(), probes.process_events()) == ({}, {}, [])
    assert (probes.dropped(), probes.made(), probes.cost().absent) == ({}, {}, "closed")
    probes.follow(job.id, full=True)
    probes.unfollow(job.id)


@needs_bpf
def test_two_nodes_on_one_machine_see_their_own_jobs(groups: Groups, attach: Attach) -> None:
    first, second = attach(), attach()
    job = groups.job()
    assert job.run("children", 3) == 0
    one, two = first.process_events(), second.process_events()
    assert len(one) == 12
    assert [(e.kind, e.pid) for e in one] == [(e.kind, e.pid) for e in two]


@needs_bpf
def test_a_second_attach_is_blind_to_what_was_before(groups: Groups, attach: Attach) -> None:
    job = groups.job()
    assert job.run("nap", 1) == 0
    probes = attach()
    reading = probes.read(job.id)
    assert reading.totals is None
    assert "since attaching" in reading.absent
    assert probes.attached_ns <= reading.t_ns


def test_every_probe_of_the_catalogue_has_a_state(tmp_path: Path) -> None:
    with HostProbes.attach(tmp_path) as probes:
        assert [state.id for state in probes.states] == [probe.id for probe in HOST_PROBES]
        assert {state.state for state in probes.states} == {"unknown"}
        assert all("cgroup v2" in state.reason for state in probes.states)
        assert probes.read(7).absent == probes.states[0].reason


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    probes = HostProbes.attach(tmp_path / "nowhere")
    assert {state.state for state in probes.states} == {"unknown"}
    assert "No such file" in probes.states[0].reason


def test_a_build_without_bpf_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stoker.native._bpf", None)
    monkeypatch.delattr("stoker.native._bpf", raising=False)
    states = HostProbes.trial()
    assert {state.state for state in states} == {"unknown"}
    assert "no eBPF part" in states[0].reason
    assert "clang" in states[0].reason


@needs_bpf
def test_a_trial_answers_as_attaching_does_and_keeps_nothing() -> None:
    require_root()
    before = held()
    assert [state for state in HostProbes.trial() if not as_expected(state)] == []
    assert held() <= before


@needs_bpf
@pytest.mark.parametrize(
    "limits",
    [
        HostLimits(threads=0),
        HostLimits(jobs=0),
        HostLimits(span_ring_bytes=5000),
        HostLimits(event_ring_bytes=1024),
        HostLimits(notice_ring_bytes=6000),
        HostLimits(tallies=0),
    ],
)
def test_sizes_out_of_range_are_refused(groups: Groups, limits: HostLimits) -> None:
    with pytest.raises(OSError, match="sizes of the host probes"):
        HostProbes.attach(groups.jobs, limits)


UNPRIVILEGED = """
    import os, sys
    from pathlib import Path
    from stoker.native import _bpf
    from stoker.probes.host.host_probes import HostProbes
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
    probes = HostProbes.attach(Path(sys.argv[1]))
    for state in probes.states:
        print(state.state, state.reason)
    print(probes.read(5).absent)
"""


@needs_bpf
def test_without_rights_the_kernels_refusal_is_reported(groups: Groups) -> None:
    require_root()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(UNPRIVILEGED), str(groups.jobs)],
        check=True,
        capture_output=True,
        text=True,
    )
    *states, absent = done.stdout.splitlines()
    assert len(states) == len(HOST_PROBES)
    for line in states:
        assert line.startswith("refused "), line
        assert "Operation not permitted" in line
        assert "CAP_BPF" in line
    assert "CAP_BPF" in absent
    assert done.stderr == ""


@needs_bpf
def test_a_kernel_without_btf_is_said(groups: Groups, tmp_path: Path) -> None:
    with HostProbes.attach(groups.jobs, btf_path=str(tmp_path / "none")) as probes:
        assert {state.state for state in probes.states} == {"refused"}
        assert {state.reason for state in probes.states} == {"this kernel was built without BTF"}
        assert probes.pressure(7).absent["minor_faults"] == "this kernel was built without BTF"
        probes.opt_in(7, calls=True)
        assert (probes.critical(), probes.device_opens(), probes.stack_waits(7)) == ([], [], [])
        assert set(probes.node_signals().absent) == {
            "cpu_khz",
            "temperature_mc",
            "trips",
            "cooling",
        }


@needs_bpf
def test_btf_that_cannot_be_read_is_not_taken_for_a_refusal(groups: Groups, tmp_path: Path) -> None:
    (tmp_path / "btf").write_text("no such thing")
    with HostProbes.attach(groups.jobs, btf_path=str(tmp_path / "btf")) as probes:
        assert {state.state for state in probes.states} == {"unknown"}
        assert "cannot be read" in probes.states[0].reason


def almost_empty_btf() -> bytes:
    """The types of a kernel that knows `int` and no tracepoint; Documentation/bpf/btf.rst."""
    strings = b"\0int\0"
    integer = struct.pack("<IIII", 1, 1 << 24, 4, 1 << 24 | 32)
    header = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(integer), len(integer), len(strings))
    return header + integer + strings


@needs_bpf
def test_without_typed_tracepoints_the_untyped_forms_serve(groups: Groups, tmp_path: Path) -> None:
    (tmp_path / "btf").write_bytes(almost_empty_btf())
    with HostProbes.attach(groups.jobs, btf_path=str(tmp_path / "btf")) as probes:
        states = {state.id: state for state in probes.states}
        assert {id for id, each in states.items() if each.state == "attached"} == {
            "host.process.exec",
            "host.process.fork",
            "host.process.exit",
            "host.device.open",
        }
        assert states["host.sched.switch"].reason == "this kernel has no tracepoint sched_switch"
        assert states["host.block.request"].reason == (
            "this kernel has no tracepoint block_io_start nor block_rq_issue"
        )
        assert states["host.device.ioctl"].state == "refused"
        job = groups.job()
        assert job.run("children", 3) == 0
        assert Counter(event.kind for event in probes.process_events()) == {
            "fork": 4,
            "exec": 4,
            "exit": 4,
        }


REFUSED = """
    import sys
    from pathlib import Path
    from stoker.probes.host.host_probes import HostProbes
    with HostProbes.attach(Path(sys.argv[1])) as probes:
        for state in probes.states:
            print(state.id, state.state, state.reason, sep="|")
"""


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that makes the kernel refuse one program, see refuse_program.c."""
    library = tmp_path_factory.mktemp("refuse") / "refuse.so"
    source = Path(__file__).parents[1] / "refuse_program.c"
    argv = ["cc", "-O1", "-Wall", "-Werror", "-fPIC", "-shared", "-o", library, source, "-ldl"]
    subprocess.run(argv, check=True)
    return library


def states_with(groups: Groups, environment: dict[str, str]) -> dict[str, tuple[str, str]]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(REFUSED), str(groups.jobs)],
        env=os.environ | environment,
        check=True,
        capture_output=True,
        text=True,
    )
    lines = (line.split("|", 2) for line in done.stdout.splitlines())
    return {id: (state, reason) for id, state, reason in lines}


@needs_bpf
@pytest.mark.parametrize(
    ("program", "lost"),
    [
        ("on_softirq_exit", {"host.irq.softirq"}),
        ("on_device", {"host.device.open"}),
        ("on_request_done", {"host.block.request"}),
        ("on_wakeup", {"host.sched.wakeup"}),
    ],
)
def test_one_refused_program_takes_no_other_probe_with_it(
    groups: Groups, refusing: Path, program: str, lost: set[str]
) -> None:
    usual = states_with(groups, {})
    states = states_with(groups, {"LD_PRELOAD": str(refusing), "REFUSED_PROGRAM": program})
    changed = {id for id in usual if states[id] != usual[id]}
    assert changed == lost
    for id in changed:
        assert states[id][0] == "refused"
        assert states[id][1] == "loading: Invalid argument: R1 type=ctx expected=simulated"


@needs_bpf
def test_without_the_switches_whatever_adds_to_threads_is_off(
    groups: Groups, refusing: Path
) -> None:
    usual = states_with(groups, {})
    refused = {"LD_PRELOAD": str(refusing), "REFUSED_PROGRAM": "on_switch"}
    states = states_with(groups, refused)
    changed = {id for id in usual if states[id] != usual[id]}
    assert {"host.sched.switch", "host.sched.wakeup", "host.irq.handler"} <= changed
    assert "simulated" in states["host.sched.switch"][1]
    assert "without host.sched.switch (loading: " in states["host.irq.softirq"][1]
    assert states["host.process.exec"][0] == states["host.block.request"][0] == "attached"


@needs_bpf
def test_a_tight_memlock_limit_changes_nothing_here(groups: Groups) -> None:
    """Kernels from 5.11 on charge maps to the memory cgroup; older ones say so in the reason."""
    argv = ["prlimit", "--memlock=4096:4096", sys.executable, "-c", textwrap.dedent(REFUSED)]
    done = subprocess.run([*argv, str(groups.jobs)], check=True, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        id, state, reason = line.split("|", 2)
        assert as_expected(ProbeState(id, state, reason)), line  # type: ignore[arg-type]


@needs_bpf
def test_rows_and_catalogue_name_the_same_probes() -> None:
    assert [state.id for state in HostProbes.trial()] == [probe.id for probe in HOST_PROBES]
    dear = {probe.id for probe in HOST_PROBES if probe.payer in ("call", "fault", "wait")}
    assert dear == UNTIL_ASKED
