# SPDX-License-Identifier: Apache-2.0
"""The doctor: stable ids, honest statuses, and nothing on the machine changed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from stoker.agent.commands import doctor, install_checks, machine_checks
from stoker.agent.commands.doctor import exit_code, report
from stoker.agent.commands.doctor_check import Check
from stoker.agent.link import member_list
from stoker.agent.link.member_list import MeshMember
from stoker.agent.state import gossip_files, state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import broker_address, lock, own_folder, pids
from stoker.mesh.wire import scheduler_figures
from stoker.mesh.wire.scheduler_figures import OUT_OF_ROSTER, SchedulerFigures

STOKER = Path(sys.executable).with_name("stoker")
ALWAYS = {
    "install.links", "install.python", "build.core", "build.trace", "build.bpf", "build.tracer",
    "build.spawner", "build.watchdog", "broker.version", "state.folder", "node.running",
    "disk.state", "disk.shm", "rights.root", "limits.nofile", "cgroup.v2", "opencl.loader",
}  # fmt: skip
"""Ids that scripts rely on; new ones may come, none is renamed."""


@pytest.fixture
def where(tmp_path: Path) -> StateFolder:
    return state_folder.locate(tmp_path / "state")


def find(checks: list[Check], id: str) -> Check:
    return next(check for check in checks if check.id == id)


def test_the_ids_are_there_on_every_machine(where: StateFolder) -> None:
    checks = report(where)
    assert {check.id for check in checks} >= ALWAYS
    for check in checks:
        assert re.fullmatch(r"[a-z]+(\.[A-Za-z0-9_-]+)+", check.id), check
        assert check.text
    assert not where.root.exists()


def test_what_is_not_set_up_is_no_failure(where: StateFolder) -> None:
    assert find(report(where), "state.folder").status == "PASS"


def test_the_file_of_settings_is_checked_and_its_broker_is_the_one_that_is_looked_at(
    where: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_NATS_SERVER", "")
    monkeypatch.delenv("STOKER_NATS_SERVER")
    assert find(doctor.checks_of("config.file", where), "config.file").status == "PASS"
    where.root.mkdir(mode=0o700)
    file = where.root / "config.toml"
    file.write_text("[retentoin]\n")
    found = find(report(where), "config.file")
    assert (found.status, found.text.partition(" ")[0]) == ("FAIL", f"{file}:1:")
    file.write_text('[up]\nnats_server = "/nowhere/nats-server"\n')
    checks = report(where)
    assert find(checks, "config.file").status == "PASS"
    assert find(checks, "broker.version").status == "FAIL"


@pytest.mark.parametrize(
    ("status", "leads", "says"),
    [
        ("ok", True, ("PASS", "leads in term 3, entry 44", "")),
        ("ok", False, ("PASS", "follows in term 3, entry 44", "")),
        (
            f"waiting: {OUT_OF_ROSTER}",
            False,
            ("WARN", f"waiting: {OUT_OF_ROSTER}", "cluster admit"),
        ),
        ("blocked: the disk is full", True, ("WARN", "blocked: the disk is full", "log file")),
    ],
)
def test_the_scheduler_beside_it_says_what_it_is(
    where: StateFolder,
    status: str,
    leads: bool,
    says: tuple[str, str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state_folder.prepare(where)
    own_folder.load_or_create(where)
    folder = where.root / "scheduler"
    folder.mkdir(exist_ok=True)
    monkeypatch.setattr(pids, "find", lambda where: {"scheduler": pids.identify(os.getpid())})
    found = SchedulerFigures(1, time.time_ns(), leads, 3, 44, {}, status=status)
    (folder / scheduler_figures.FILE).write_bytes(msgspec.json.encode(found))
    assert list(doctor.checks_of("scheduler.state", where)) == [], "no node runs"
    held = lock.take(where)
    assert held is not None
    try:
        (check,) = doctor.checks_of("scheduler.state", where)
    finally:
        os.close(held)
    assert (check.status, check.text) == says[:2] and says[2] in check.hint


def test_a_scheduler_that_does_not_run_is_told_with_the_last_line_of_its_log(
    where: StateFolder,
) -> None:
    state_folder.prepare(where)
    own_folder.load_or_create(where)
    (where.log / "scheduler.log").write_text('{"event": "halted", "level": "critical"}\n')
    held = lock.take(where)
    assert held is not None
    try:
        (check,) = doctor.checks_of("scheduler.state", where)
    finally:
        os.close(held)
    assert (check.status, check.text) == ("WARN", "it does not run: halted")
    assert f"{where.log}/scheduler.log" in check.hint


@pytest.mark.parametrize(
    ("told", "broker", "says"),
    [
        ("ok", "", ("PASS", "a scheduler answers this node")),
        ("waiting: no lease", "", ("WARN", "waiting: no lease")),
        (
            "waiting: no lease",
            "Authorization Violation",
            ("WARN", "waiting: no lease: the cluster does not take this node's key"),
        ),
    ],
)
def test_an_agent_that_is_not_heard_is_told_with_the_reason(
    where: StateFolder,
    told: str,
    broker: str,
    says: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state_folder.prepare(where)
    own_folder.load_or_create(where)
    lines = [{"process": "agent", "event": told}, {"process": "serf", "event": "ok"}]
    (where.log / "supervisor.log").write_text("\n".join(map(json.dumps, lines)))
    (where.log / "agent.log").write_text(json.dumps({"event": "broker", "error": broker}))
    monkeypatch.setattr(pids, "find", lambda where: {"agent": pids.identify(os.getpid())})
    assert list(doctor.checks_of("agent.state", where)) == [], "no node runs"
    held = lock.take(where)
    assert held is not None
    try:
        (check,) = doctor.checks_of("agent.state", where)
    finally:
        os.close(held)
    assert (check.status, check.text) == says
    assert ("joins again" in check.hint) == bool(broker)


def test_a_host_that_joined_needs_no_key_of_a_user(
    where: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    state_folder.prepare(where)
    own_folder.load_or_create(where)
    for key in where.keys.glob("user-*"):
        key.unlink()
    monkeypatch.setattr(state_folder, "has_joined", lambda where: True)
    held = lock.take(where)
    assert held is not None
    try:
        (check,) = doctor.checks_of("telemetry.streams", where)
    finally:
        os.close(held)
    assert check.status == "PASS" and "no user has a key on this host" in check.text


def test_a_corrupt_state_folder_is_a_failure(where: StateFolder) -> None:
    state_folder.prepare(where)
    own_folder.load_or_create(where)
    assert find(report(where), "state.folder").status == "PASS"
    where.key("agent").unlink()
    found = find(report(where), "state.folder")
    assert found.status == "FAIL"
    assert "agent.nk is missing" in found.text
    assert found.hint


def test_an_old_broker_is_a_failure(
    where: StateFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "nats-server"
    old.write_text("#!/bin/sh\necho nats-server: v2.9.10\n")
    old.chmod(0o755)
    monkeypatch.setenv("STOKER_NATS_SERVER", str(old))
    found = find(report(where), "broker.version")
    assert found.status == "FAIL"
    assert "2.9.10" in found.text


def test_lost_links_are_a_failure(
    where: StateFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "src/stoker"
    package.mkdir(parents=True)
    for name in install_checks.FOLDERS:
        (package / name).write_text(f"../../{name}")
    file = tmp_path / "agent/commands/install_checks.py"
    monkeypatch.setattr(install_checks, "__file__", str(file))
    found = find(report(where), "install.links")
    assert found.status == "FAIL"
    assert "core.symlinks" in found.hint


def test_a_check_that_breaks_is_a_failure_of_its_own(
    where: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(_: StateFolder) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setitem(doctor._CHECKS, "limits.nofile", breaks)  # type: ignore[arg-type]
    checks = report(where)
    assert find(checks, "limits.nofile").status == "FAIL"
    assert {check.id for check in checks} >= ALWAYS


@pytest.mark.parametrize(
    ("statuses", "code"), [("PASS PASS", 0), ("PASS WARN", 1), ("WARN FAIL PASS", 2), ("", 0)]
)
def test_exit_codes(statuses: str, code: int) -> None:
    checks = [Check("x.y", status, "t") for status in statuses.split()]  # type: ignore[arg-type]
    assert exit_code(checks) == code


def test_the_verb(where: StateFolder) -> None:
    done = subprocess.run(
        [STOKER, "doctor", "--state", str(where.root), "-o", "json"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["schema"] == "stoker/v1"
    assert {tuple(sorted(row)) for row in found["checks"]} == {("hint", "id", "status", "text")}
    statuses = {row["status"] for row in found["checks"]}
    assert done.returncode == (2 if "FAIL" in statuses else 1 if "WARN" in statuses else 0)


@pytest.mark.needs_root
def test_root_can_drop_what_broker_and_scheduler_do_not_need(where: StateFolder) -> None:
    if os.geteuid() != 0:
        pytest.skip("without root there is nothing to drop")
    assert find(report(where), "rights.drop").status == "PASS"


@pytest.mark.skipif(os.geteuid() != 0, reason="without root every job is the caller's own")
@pytest.mark.parametrize(("held", "status"), [(True, "PASS"), (False, "WARN")])
def test_jobs_that_can_leave_the_order_of_victims_are_named(
    where: StateFolder, monkeypatch: pytest.MonkeyPatch, held: bool, status: str
) -> None:
    monkeypatch.setattr(
        machine_checks.confine,
        "holds",
        lambda number: number != machine_checks.confine.CAP_SYS_RESOURCE or held,
    )
    (found,) = doctor.checks_of("memory.order", where)
    assert (found.id, found.status) == ("memory.order", status)
    assert ("memory_per_job" in found.hint) != held


def test_a_narrow_terminal_has_no_columns_and_a_pipe_has_them() -> None:
    rows = [Check("build.core", "PASS", "it loads"), Check("b", "WARN", "x" * 70, "mend it")]
    assert list(doctor.lines(rows, None)) == list(doctor.lines(rows, 120))
    first, second, _ = doctor.lines(rows, None)
    assert first == "PASS  build.core  it loads"
    assert second == f"WARN  b           {'x' * 70}"
    assert list(doctor.lines(rows, 80))[1:] == [f"WARN  b  {'x' * 70}", "      -> mend it"]


def test_the_first_line_counts_the_checks_and_names_what_needs_somebody() -> None:
    rows = [Check("a.a", "PASS", ""), Check("b.b", "WARN", ""), Check("c.c", "FAIL", "")]
    assert doctor.summary(rows) == "3 checks: 1 fails: c.c; 1 warns: b.b"
    assert doctor.summary(rows[:1]) == "1 checks: everything works"
    many = [Check(f"w.{n}", "WARN", "") for n in range(6)]
    assert doctor.summary(many) == "6 checks: 6 warn: w.0, w.1, w.2, w.3 and 2 more"


def test_the_mesh_has_its_reason_or_its_members(
    where: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> Check:
        (only,) = doctor.checks_of("gossip.mesh", where)
        return only

    assert doctor.checks_of("gossip.mesh", where) == [], "there is no node yet"
    broker_address.init(where, "127.0.0.2", None, "first")
    monkeypatch.setattr(gossip_files, "program", lambda: None)
    assert (found().status, "serf is not installed" in found().text) == ("WARN", True)
    monkeypatch.setattr(gossip_files, "program", lambda: "/usr/bin/serf")
    assert (found().status, "no gossip key" in found().text) == ("WARN", True)
    gossip_files.make(where)
    assert found() == Check("gossip.mesh", "PASS", "/usr/bin/serf starts with the node")
    monkeypatch.setattr(lock, "holder", lambda where: 1)
    assert (found().status, "has not been started" in found().text) == ("WARN", True)
    rows = [MeshMember(name, "", state, None, None, ()) for name, state in MESH]

    async def listed(where: StateFolder) -> list[MeshMember]:
        return rows

    monkeypatch.setattr(member_list, "listed", listed)
    assert (found().status, found().text) == (
        "WARN",
        "2 members of the gossip mesh, 1 of them failed: b",
    )
    rows.pop()
    assert found().status == "PASS"
    (where.root / "config.toml").write_text("[gossip]\nenabled = false\n")
    assert (found().status, "turned off" in found().text) == ("PASS", True)


MESH = (("a", "alive"), ("b", "failed"))
