# SPDX-License-Identifier: Apache-2.0
"""The doctor on probe sites: with an agent their state, without one the plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.native.errors import NotSupported
from stoker.probes.calls import site_report
from stoker.probes.calls.call_records import CallState
from stoker.probes.calls.call_targets import TARGETS
from stoker.probes.calls.probe_sites import SiteState
from stoker.probes.calls.trap_cost import ELSEWHERE, TrapCosts, boot_id, save
from stoker.probes.catalogue import ProbeState
from stoker.probes.doctor import site_doctor
from stoker.probes.doctor.check_report import ProbeCheck
from stoker.probes.doctor.site_doctor import COSTS_FILE, site_checks
from tests.probes.gpu_jobs import compile_library

GOOD = ProbeState("calls.uprobe", "attached", "")
COSTS = TrapCosts(dict.fromkeys(ELSEWHERE.both_ns, 500), ELSEWHERE.entry_ns, "x", boot_id())
DEAR = TrapCosts(COSTS.both_ns | {"other": 9_000_000}, ELSEWHERE.entry_ns, "x", boot_id())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of an agent that has measured; nothing of this machine is looked at."""
    monkeypatch.setattr(site_doctor, "FOLDERS", (str(tmp_path / "lib"),))
    monkeypatch.setattr(site_doctor, "_loaded", lambda: GOOD)
    (tmp_path / "lib").mkdir()
    save(tmp_path / COSTS_FILE, COSTS)
    return tmp_path


def lines(folder: Path) -> dict[str, ProbeCheck]:
    found = site_checks(folder)
    assert len({check.id for check in found}) == len(found)
    assert all(check.text for check in found)
    return {check.id: check for check in found}


def test_without_a_library_that_is_said(folder: Path) -> None:
    found = lines(folder)
    assert set(found) == {
        "probe.calls.uprobe",
        "probe.site.cost",
        "probe.site.cuda",
        "probe.site.nccl",
        "probe.site.mpi",
    }
    assert "no libcuda.so in" in found["probe.site.cuda"].text
    assert "push 500" in found["probe.site.cost"].text


def test_of_an_installed_library_every_call_is_told(folder: Path) -> None:
    compile_library(folder / "lib" / "libcuda.so.580.65.06")
    save(folder / COSTS_FILE, DEAR)
    found = lines(folder)
    cuda = {f"probe.site.{target.id}" for target in TARGETS if target.library == "libcuda.so"}
    assert cuda <= set(found)
    launch = found["probe.site.cuda.cuLaunchKernel"]
    assert launch.status == "PASS"
    assert "would be attached" in launch.text
    assert "push, 500 ns a hit" in launch.text
    assert "would be sampled" in found["probe.site.cuda.cuModuleLoadData"].text
    assert "off for cost" in found["probe.site.cuda.cuMemcpyAsync"].text
    assert "behind its endbr64" in found["probe.site.cuda.cuStreamSynchronize"].text
    refused = found["probe.site.cuda.cuMemFree"]
    assert (refused.status, "IFUNC" in refused.text) == ("WARN", True)
    assert found["probe.site.cuda.cuGraphLaunch"].status == "PASS"
    assert "no function cuMemcpyDtoHAsync" in found["probe.site.cuda.cuMemcpyDtoHAsync"].text


def test_a_damaged_library_is_one_warning(folder: Path) -> None:
    (folder / "lib" / "libcuda.so.1").write_bytes(b"not much")
    found = lines(folder)
    assert found["probe.site.cuda"].status == "WARN"
    assert "damaged" in found["probe.site.cuda"].text


def test_what_a_running_agent_says_counts(folder: Path) -> None:
    def state(job: int, state: SiteState, why: str, processes: int) -> CallState:
        library = f"/j{job}/libcuda.so.1"
        return CallState(
            "cuda.cuLaunchKernel", job, library, state, why, "push", 500, 10, processes
        )  # type: ignore[arg-type]

    told = [state(1, "attached", "cheap", 3), state(2, "refused", "attaching: EPERM", 0)]
    off = CallState("nccl.ncclSend", 1, "/j1/libnccl.so.2", "off", "off for cost", "other", 9, 0, 0)
    site_report.save(folder / site_report.FILE, GOOD, [*told, off], {})
    found = lines(folder)
    launch = found["probe.site.cuda.cuLaunchKernel"]
    assert launch.status == "WARN"
    assert (
        "attached in /j1/libcuda.so.1; push, 500 ns a hit: cheap (3 processes, 1 jobs)"
        in launch.text
    )
    assert "refused in /j2/libcuda.so.1" in launch.text
    assert found["probe.site.nccl.ncclSend"].status == "PASS"
    assert "probe.site.cuda" not in found


def test_programs_that_do_not_load_are_a_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = ProbeState("calls.uprobe", "refused", "loading: Operation not permitted")
    monkeypatch.setattr(site_doctor, "_loaded", lambda: answer)
    check = lines(folder)["probe.calls.uprobe"]
    assert (check.status, "refused: loading" in check.text) == ("WARN", True)
    assert "CAP_BPF" in check.hint


def test_costs_that_cannot_be_measured_are_a_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> TrapCosts:
        raise NotSupported("no uprobes here")

    (folder / COSTS_FILE).unlink()
    monkeypatch.setattr(site_doctor, "measure", refuse)
    check = lines(folder)["probe.site.cost"]
    assert (check.status, check.hint) == ("WARN", "no uprobes here")
    assert "elsewhere" in check.text
    assert not (folder / COSTS_FILE).exists()  # the doctor changes nothing
