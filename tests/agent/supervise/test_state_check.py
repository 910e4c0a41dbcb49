# SPDX-License-Identifier: Apache-2.0
"""Every file of the state folder is damaged in every way: a start works completely, or it refuses
by the file's name with exit code 3, and changes no byte."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from stoker.agent.alerts import alert_files
from stoker.agent.alerts.judge import AlertBook
from stoker.agent.devices import order
from stoker.agent.health import journal as health
from stoker.agent.health.log_place import LogPlace
from stoker.agent.jobs.start_records import StartRecord, StartRecords
from stoker.agent.power import rules_file
from stoker.agent.power.plan.rules import PowerRules
from stoker.agent.state import node_labels, state_folder
from stoker.agent.state.command_position import PositionFile
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import own_folder, own_users
from stoker.mesh.identity import identity
from stoker.mesh.wire.command import Position
from stoker.native.errors import StokerError
from stoker.probes.calls import site_report, trap_cost
from stoker.scheduler.nouns import TaskKey

BOOT = "b007"
STRANGER = 61001
STEP = 3
"""The distance in bytes between two flipped bits."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> StateFolder:
    """The folder of a node that has run and was ended."""
    where = state_folder.locate(tmp_path_factory.mktemp("whole") / "state")
    state_folder.prepare(where)
    own_folder.load_or_create(where)
    node_labels.keep(("zone=a", "disk=nvme"), where)
    rules_file.write(where.agent, PowerRules(control="on", budget_w=3900.0, tenants={"a": 500.0}))
    health.store(where.agent, BOOT, health.Kept(energy_j={"a": 1.5}))
    order.write(where.agent / order.NAME, order.DeviceOrder(BOOT, ("a", "b")))
    alert_files.write_book(where.agent, AlertBook(next_id=7))
    for name in ("journal", "keepers.lock", "spawner.lock"):
        (where.agent / name).write_bytes(b"the spawner's")
    (where.nats / "jetstream").mkdir()
    (where.nats / "jetstream/meta.inf").write_bytes(b"the broker's")
    return where


def meaning(where: StateFolder) -> dict[str, Any]:
    """Return everything that a start reads from this folder."""
    cluster = own_folder.load_or_create(where)
    pem = where.broker_certificate.read_bytes()
    return {
        "cluster": cluster,
        "users": own_users.load(where),
        "keys": {path.name: identity.load(path).public for path in where.keys.glob("*.nk")},
        "certificate": x509.load_pem_x509_certificate(pem),
        "labels": node_labels.of_node((), where),
        "rules": rules_file.read(where.agent / rules_file.NAME),
        "health": health.load(where.agent, BOOT),
        "alerts": alert_files.read_book(where.agent),
        "devices": order.of_boot(where.agent / order.NAME, BOOT),
    }


def contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


NAMES = [
    *("format", "cluster.json", "users.json"),
    *(f"keys/{name}" for name in ("scheduler.nk", "agent.nk", "admin.nk", "user.nk")),
    *(f"keys/{name}" for name in ("broker.key", "broker.crt")),
    *(f"agent/{name}" for name in ("labels.json", "power-rules.json", "health.json")),
    *("agent/devices.json", "agent/alerts.json"),
]
"""Files that a start reads; `keys/user.nk` is the caller's."""
OPTIONAL = (
    *("agent/labels.json", "agent/power-rules.json"),
    *("agent/health.json", "agent/alerts.json"),
)
"""Optional files, whose absence cannot be noticed."""


def flips(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), STEP):
        yield data[:at] + bytes([data[at] ^ 1 << (at // STEP) % 8]) + data[at + 1 :]


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_is_refused_by_name_or_nothing_is_lost(
    folder: StateFolder, name: str
) -> None:
    path = folder.root / name
    if name == "keys/user.nk":
        (path,) = folder.keys.glob("user-*.nk")
    good, whole = path.read_bytes(), meaning(folder)
    mode = path.stat().st_mode & 0o777
    damages: list[bytes | None] = [None, b"", good[: len(good) // 2], *flips(good)]
    refused = 0
    try:
        for damage in damages:
            path.unlink(missing_ok=True)
            if damage is not None:
                path.write_bytes(damage)
                path.chmod(mode)
            before = contents(folder.root)
            try:
                state_folder.prepare(folder)
                found = meaning(folder)
            except StokerError as error:
                refused += 1
                assert error.exit_code == 3, (damage, error)
                assert path.name in error.message and "\n" not in str(error), (damage, error)
            else:
                lost = damage is None and name in (*OPTIONAL, "agent/devices.json")
                assert lost or found == whole, damage
            assert contents(folder.root) == before, damage
    finally:
        path.write_bytes(good)
        path.chmod(mode)
    assert refused >= 3 if name != "format" else refused >= 1
    assert meaning(folder) == whole


@pytest.mark.needs_root
@pytest.mark.parametrize(
    "name",
    [
        *(each for each in NAMES if each != "keys/user.nk"),
        *("agent/journal", "agent/keepers.lock", "nats/jetstream/meta.inf"),
        *("nats/jetstream", "keys", "scheduler"),
    ],
)
def test_what_belongs_to_somebody_else_is_refused_by_name(folder: StateFolder, name: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    path = folder.root / name
    before = contents(folder.root)
    os.chown(path, STRANGER, STRANGER)
    try:
        with pytest.raises(StokerError, match=rf"{path}.*uid {STRANGER}") as caught:
            own_folder.load_or_create(folder)
    finally:
        os.chown(path, 0, 0)
    assert caught.value.exit_code == 3, caught.value
    assert contents(folder.root) == before


@pytest.mark.parametrize("name", ["nats", "scheduler", "agent", "keys", "log"])
def test_a_lost_folder_is_named_and_lost_logs_are_no_loss(
    folder: StateFolder, name: str, tmp_path: Path
) -> None:
    whole = meaning(folder)
    (folder.root / name).rename(tmp_path / name)
    try:
        if name == "log":
            state_folder.prepare(folder)
            assert meaning(folder) == whole
            folder.log.rmdir()
        else:
            with pytest.raises(StokerError, match=rf"{folder.root / name}\b") as caught:
                state_folder.prepare(folder)
                own_folder.load_or_create(folder)
            assert caught.value.exit_code == 3
            assert not (folder.root / name).exists(), "made anew, it would hide the loss"
    finally:
        (tmp_path / name).rename(folder.root / name)


def test_a_lost_journal_is_named(folder: StateFolder) -> None:
    journal = folder.agent / "journal"
    data = journal.read_bytes()
    journal.unlink()
    try:
        with pytest.raises(StokerError, match=rf"{journal} is missing.*keepers\.lock"):
            own_folder.load_or_create(folder)
    finally:
        journal.write_bytes(data)


@pytest.mark.parametrize(
    "lost", [("format",), ("format", "cluster.json"), ("format", "users.json")]
)
def test_a_node_that_ran_is_never_taken_for_a_new_one(
    folder: StateFolder, lost: tuple[str, ...]
) -> None:
    kept = {folder.root / name: (folder.root / name).read_bytes() for name in lost}
    for path in kept:
        path.unlink()
    before = contents(folder.root)
    try:
        with pytest.raises(StokerError, match="format is missing, and a node has run") as caught:
            state_folder.prepare(folder)
            own_folder.load_or_create(folder)
        assert caught.value.exit_code == 3
        assert contents(folder.root) == before
    finally:
        for path, data in kept.items():
            path.write_bytes(data)
            path.chmod(0o600)


# --- files that are made again without loss -----------------------------------------------------


def _position(path: Path) -> object:
    return PositionFile.open(path).close()


def _starts(path: Path) -> object:
    return StartRecords.open(path).get(TaskKey(1, 1, 0))


READERS: dict[str, Callable[[Path], object]] = {
    "position": _position,
    "starts": _starts,
    "kernel-log.json": lambda path: LogPlace(path.parent, BOOT).sequence,
    "trap-costs.json": trap_cost.load,
    "sites.json": site_report.load,
}


def made(folder: Path, name: str) -> bytes:
    if name == "position":
        file = PositionFile.open(folder / name)
        for seq in (1, 2):
            file.store(Position(1, seq, bytes(32)))
        file.close()
    elif name == "starts":
        starts = StartRecords.open(folder / name)
        starts.add([StartRecord(job, 1, 0, 0, 0, 1000, 5.0, name="train") for job in (1, 2, 3)])
        starts.close()
    else:
        text = '{"boot_id": "b007", "sequence": 12, "told_ns": 7, "source": "%s"}' % ("é" * 20)
        (folder / name).write_text(text)
    return (folder / name).read_bytes()


@pytest.mark.parametrize("name", READERS)
def test_what_holds_nothing_of_worth_never_stops_an_agent(tmp_path: Path, name: str) -> None:
    good = made(tmp_path, name)
    for damage in (b"", good[: len(good) // 2], b"\xff" * 200, *flips(good)):
        (tmp_path / name).write_bytes(damage)
        READERS[name](tmp_path / name)
    (tmp_path / name).unlink()
    READERS[name](tmp_path / name)
