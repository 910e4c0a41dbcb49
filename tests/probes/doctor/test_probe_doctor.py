# SPDX-License-Identifier: Apache-2.0
"""The probes' part of the doctor: the same ids everywhere, and a reason for what is missing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from stoker.probes.catalogue import HOST_PROBES, ProbeState, all_states
from stoker.probes.doctor import probe_doctor
from stoker.probes.doctor.probe_doctor import ProbeCheck, cgroup2_mount, host_check, probe_report
from stoker.probes.host.host_probes import Cost, HostProbes
from tests.probes.groups import require_root


def test_every_probe_is_in_the_report_with_a_text() -> None:
    report = probe_report()
    ids = [check.id for check in report]
    assert len(ids) == len(set(ids))
    assert {f"probe.{probe.id}" for probe in HOST_PROBES} <= set(ids)
    assert {"probe.build", "probe.btf", "probe.cgroup"} <= set(ids)
    assert all(check.text for check in report)
    assert {check.status for check in report} <= {"PASS", "WARN"}


@pytest.mark.needs_bpf
def test_as_root_every_host_probe_passes() -> None:
    require_root()
    wrong = [check for check in probe_report() if check.status != "PASS"]
    wrong = [check for check in wrong if not check.id.startswith(("probe.opencl", "probe.clock"))]
    assert [check for check in wrong if "this kernel has no tracepoint" not in check.text] == []


def test_a_refusal_is_told_with_what_is_needed() -> None:
    check = host_check(ProbeState("host.sched.switch", "refused", "loading: EPERM"), Cost())
    assert (check.id, check.status) == ("probe.host.sched.switch", "WARN")
    assert "refused: loading: EPERM" in check.text
    assert "CAP_BPF" in check.hint


def only(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask nothing but this: the others take their time and are asked above."""
    monkeypatch.setattr(probe_doctor, "_CHECKS", {id: probe_doctor._CHECKS[id]})
    monkeypatch.setattr(probe_doctor, "site_checks", lambda _: [])


def test_a_measured_cost_is_told_with_who_pays() -> None:
    state = ProbeState("host.sched.switch", "attached", "")
    cost = Cost(50_000, 500, 10_000_000, {"host.sched.switch": (50_000, 500)})
    text = host_check(state, cost).text
    assert "jobs pay" in text
    assert "100 ns a hit" in text
    assert "0.50% of a CPU" in text
    assert "not hit" in host_check(state, Cost(0, 0, 10, {})).text
    assert "not measured: EPERM" in host_check(state, Cost(absent="EPERM")).text


def test_what_is_off_for_cost_is_no_fault() -> None:
    check = host_check(ProbeState("host.sched.stack", "off", "every wait would pay"), Cost())
    assert (check.status, "off for cost: every wait would pay" in check.text) == ("PASS", True)


def test_what_could_not_be_asked_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = all_states("unknown", "no such module"), Cost(absent="no such module")
    only("probe.host", monkeypatch)
    monkeypatch.setattr(HostProbes, "trial_measured", lambda _: answer)
    texts = [check.text for check in probe_report() if check.id.startswith("probe.host")]
    assert len(texts) == len(HOST_PROBES)
    assert all("could not be asked: no such module" in text for text in texts)


def test_a_check_that_hangs_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def hang() -> list[ProbeCheck]:
        release.wait(30)
        return []

    def fail() -> list[ProbeCheck]:
        raise OSError("broken")

    monkeypatch.setattr(probe_doctor, "LIMIT_S", 0.05)
    monkeypatch.setattr(probe_doctor, "_CHECKS", {"probe.a": hang, "probe.b": fail})
    hung, failed, *_ = probe_report()
    release.set()
    assert (hung.id, hung.status, hung.text) == ("probe.a", "WARN", "no answer within 0.05 s")
    assert (failed.id, failed.status) == ("probe.b", "WARN")
    assert "broken" in failed.text


def test_a_driver_that_does_not_load_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ghost.icd").write_text("/nowhere/libghost.so\n")
    only("probe.opencl", monkeypatch)
    monkeypatch.setattr(probe_doctor, "VENDORS", tmp_path)
    (check,) = [check for check in probe_report() if check.id.startswith("probe.opencl")]
    assert (check.id, check.status) == ("probe.opencl.ghost", "WARN")
    assert "/nowhere/libghost.so does not load" in check.text
    assert str(tmp_path / "ghost.icd") in check.hint


def test_no_driver_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only("probe.opencl", monkeypatch)
    monkeypatch.setattr(probe_doctor, "VENDORS", tmp_path / "none")
    (check,) = [check for check in probe_report() if check.id.startswith("probe.opencl")]
    assert check.status == "WARN"
    assert "pocl" in check.hint


def test_a_kernel_without_btf_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only("probe.btf", monkeypatch)
    monkeypatch.setattr(probe_doctor, "BTF", tmp_path / "vmlinux")
    (missing,) = [check for check in probe_report() if check.id == "probe.btf"]
    assert (missing.status, "missing" in missing.text) == ("WARN", True)
    (tmp_path / "vmlinux").write_bytes(b"\0\0")
    (wrong,) = [check for check in probe_report() if check.id == "probe.btf"]
    assert (wrong.status, "no BTF" in wrong.text) == ("WARN", True)


def test_the_cgroup2_mount_is_found_among_others() -> None:
    lines = (
        "31 30 0:26 / /cg/memory rw - cgroup cgroup rw\n41 30 0:38 / /cg/u rw a:1 - cgroup2 x rw\n"
    )
    assert cgroup2_mount(lines) == Path("/cg/u")
    assert cgroup2_mount(lines.splitlines()[0]) is None
