# SPDX-License-Identifier: Apache-2.0
"""Attaching and closing: what is left behind, and what is said where it is not allowed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.probes.catalogue import HOST_PROBES
from stoker.probes.host import HostLimits, HostProbes
from tests.probes.groups import Groups, as_expected, eventually, require_root

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
    found = set()
    for kind in ("prog", "map", "link", "btf"):
        argv = ["bpftool", "-j", kind, "list"]
        listing = subprocess.run(argv, check=True, capture_output=True)
        found |= {(kind, each["id"]) for each in json.loads(listing.stdout)}
    return found


@needs_bpf
def test_closing_leaves_no_program_map_or_link(groups: Groups, attach: Attach) -> None:
    before = held()
    probes = attach()
    probes.begin_cost()  # a measuring window is closed as well
    made = held() - before
    assert {kind for kind, _ in made} >= {"prog", "map", "link"}
    assert len([kind for kind, _ in made if kind == "link"]) >= 31
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
    ],
)
def test_sizes_out_of_range_are_refused(groups: Groups, limits: HostLimits) -> None:
    with pytest.raises(OSError, match="sizes of the host probes"):
        HostProbes.attach(groups.jobs, limits)


UNPRIVILEGED = """
    import os, sys
    from pathlib import Path
    from stoker.native import _bpf
    from stoker.probes.host import HostProbes
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
