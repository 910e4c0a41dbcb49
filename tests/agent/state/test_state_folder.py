# SPDX-License-Identifier: Apache-2.0
"""The state folder: private, complete and of a known format, or refused with nothing changed."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from spawned import OWNER

from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import own_folder, teardown
from stoker.mesh.connection import context
from stoker.native.errors import Corrupt, Refused, StokerError


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    """A complete state folder, as the first `stoker up` makes it."""
    where = state_folder.locate(tmp_path / "state")
    state_folder.prepare(where)
    own_folder.load_or_create(where)
    return where


def contents(root: Path) -> dict[str, bytes]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def test_a_new_folder_is_private_from_the_start(tmp_path: Path) -> None:
    former = os.umask(0)
    try:
        where = state_folder.locate(tmp_path / "deep/er/state")
        state_folder.prepare(where)
    finally:
        os.umask(former)
    assert where.root.stat().st_mode & 0o777 == 0o700
    assert {p.name for p in where.root.iterdir()} == {"keys", "nats", "scheduler", "agent", "log"}


def test_what_the_first_start_leaves(folder: StateFolder) -> None:
    cluster = state_folder.load(folder)
    assert (folder.root / "format").read_text() == f"{state_folder.FORMAT}\n"
    assert {p.name for p in folder.keys.iterdir()} >= {"scheduler.nk", "agent.nk", "admin.nk"}
    assert all(p.stat().st_mode & 0o077 == 0 for p in folder.root.rglob("*") if p.is_file())
    assert cluster.scheduler_public_key.startswith("U")


def test_a_second_start_changes_no_identity(folder: StateFolder) -> None:
    before = contents(folder.root)
    state_folder.prepare(folder)
    own_folder.load_or_create(folder)
    assert contents(folder.root) == before


@pytest.mark.parametrize("made", [0, 1, 2])
def test_a_first_start_that_was_cut_off_is_completed(folder: StateFolder, made: int) -> None:
    """Return snapshots after each step: keys, the table of users, the cluster, and `format`."""
    steps = [folder.users, folder.cluster, folder.root / "format"]
    for path in steps[made:]:
        path.unlink()
    before = contents(folder.root)
    state_folder.prepare(folder)
    own_folder.load_or_create(folder)
    after = contents(folder.root)
    assert {name: after[name] for name in before} == before
    assert state_folder.exists(folder)


def test_a_first_start_is_not_completed_over_a_loss(folder: StateFolder) -> None:
    for path in (folder.root / "format", folder.users):  # the cluster was named after the users
        path.unlink()
    before = contents(folder.root)
    with pytest.raises(Corrupt, match=r"users\.json is missing"):
        own_folder.load_or_create(folder)
    assert contents(folder.root) == before


def test_a_folder_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("%")
    tmp_path.chmod(0o700)
    with pytest.raises(Refused, match=r"thesis\.tex"):
        state_folder.prepare(state_folder.locate(tmp_path))
    assert contents(tmp_path) == {"thesis.tex": b"%"}


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o701])
def test_a_folder_open_to_others_is_refused(folder: StateFolder, mode: int) -> None:
    folder.root.chmod(mode)
    with pytest.raises(Refused, match="open to others"):
        state_folder.load(folder)


@pytest.mark.needs_root
def test_a_folder_of_somebody_else_is_refused(folder: StateFolder) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(folder.root, 65534, 65534)
    with pytest.raises(Refused, match="belongs to uid 65534"):
        state_folder.load(folder)


def _write(name: str, data: bytes) -> Callable[[StateFolder], object]:
    return lambda where: (where.root / name).write_bytes(data)


CORRUPTIONS: dict[str, Callable[[StateFolder], object]] = {
    "unreadable cluster": _write("cluster.json", b"{"),
    "cluster of other types": _write("cluster.json", b'{"cluster": 1}'),
    "cluster that is no UTF-8": _write("cluster.json", b'{"cluster": "\xff"}'),
    "no cluster": lambda where: where.cluster.unlink(),
    "no users": lambda where: where.users.unlink(),
    "unreadable users": _write("users.json", b"[]"),
    "no key": lambda where: where.key("agent").unlink(),
    "empty key": _write("keys/agent.nk", b""),
    "a format that is no number": _write("format", b"one\n"),
    "an empty format": _write("format", b""),
    "a format of the future": _write("format", b"%d\n" % (state_folder.FORMAT + 1)),
    "a format before the first": _write("format", b"0\n"),
    "a folder that is missing": lambda where: shutil.rmtree(where.scheduler),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corrupt_folder_is_named_and_left_alone(folder: StateFolder, name: str) -> None:
    CORRUPTIONS[name](folder)
    before = contents(folder.root)
    with pytest.raises(Corrupt) as caught:
        state_folder.load(folder)
        own_folder.load_or_create(folder)
    assert caught.value.exit_code == 3
    assert str(folder.root) in caught.value.message
    assert "\n" not in str(caught.value)
    assert contents(folder.root) == before


def test_a_key_that_others_can_read_is_refused(folder: StateFolder) -> None:
    folder.key("admin").chmod(0o640)
    with pytest.raises(Refused, match=r"admin\.nk"):
        state_folder.load(folder)


def test_an_older_format_is_migrated_step_by_step(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    (folder.root / "format").write_text("1\n")
    monkeypatch.setattr(state_folder, "FORMAT", 3)
    monkeypatch.setitem(state_folder.MIGRATIONS, 1, lambda root: seen.append("1 to 2"))
    monkeypatch.setitem(state_folder.MIGRATIONS, 2, lambda root: seen.append("2 to 3"))
    state_folder.load(folder)
    assert seen == ["1 to 2", "2 to 3"]
    assert (folder.root / "format").read_text() == "3\n"


def test_a_format_without_a_way_up_is_refused_with_what_to_do(folder: StateFolder) -> None:
    (folder.root / "format").write_text("2\n")
    with pytest.raises(Corrupt, match="state format 2, too old") as refused:
        state_folder.load(folder)
    assert "stoker down" in refused.value.hint and "stoker up" in refused.value.hint
    assert (folder.root / "format").read_text() == "2\n"


def test_a_migration_that_fails_is_tried_again(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(root: Path) -> None:
        raise Refused("the disk is full")

    (folder.root / "format").write_text("1\n")
    monkeypatch.setattr(state_folder, "FORMAT", 2)
    monkeypatch.setitem(state_folder.MIGRATIONS, 1, fails)
    with pytest.raises(Refused):
        state_folder.load(folder)
    assert (folder.root / "format").read_text() == "1\n"


def test_files_are_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    state_folder.write_json(path, ClusterFile("c", "n", "U", 1))
    with pytest.raises(TypeError):
        state_folder.write_json(path, object())
    assert state_folder.read_json(path, ClusterFile) == ClusterFile("c", "n", "U", 1)
    assert [p.name for p in tmp_path.iterdir()] == ["cluster.json"]


def test_a_cluster_file_names_one_scheduler_or_the_whole_roster(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text('{"cluster": "c", "node": "n", "scheduler_public_key": "U1", "port": 1}')
    assert state_folder.read_json(path, ClusterFile).scheduler_keys == ("U1",)
    state_folder.write_json(path, ClusterFile("c", "n", "U2", 1, ("U1", "U2", "U3")))
    assert state_folder.read_json(path, ClusterFile).scheduler_keys == ("U1", "U2", "U3")


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "cluster.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Corrupt, match="larger"):
        state_folder.read_json(tmp_path / "cluster.json", ClusterFile)


def test_clients_look_where_the_node_writes(folder: StateFolder) -> None:
    assert folder.run in context.run_folders(folder.root)
    assert folder.shm == Path("/dev/shm") / f"stoker-{folder.instance}"


def test_links_name_the_same_node(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    assert state_folder.locate(tmp_path / "link") == state_folder.locate(tmp_path / "real")


def test_the_state_is_named_by_option_then_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_STATE", str(tmp_path / "environment"))
    assert state_folder.locate(None).root == tmp_path / "environment"
    assert state_folder.locate(tmp_path / "option").root == tmp_path / "option"
    monkeypatch.delenv("STOKER_STATE")
    assert state_folder.locate(None).root == context.default_state().resolve()


def test_a_planted_run_folder_is_refused(folder: StateFolder, tmp_path: Path) -> None:
    planted = StateFolder(folder.root, tmp_path / "run" / "x")
    planted.run.parent.mkdir(mode=0o755)
    planted.run.symlink_to(tmp_path)
    with pytest.raises(StokerError, match="somebody else"):
        state_folder.prepare_run(planted)


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user")
@pytest.mark.parametrize("squat", [("mkdir", "-m", "777"), ("ln", "-s", "/etc"), ("touch",)])
def test_who_has_the_name_in_shared_memory_first_does_not_keep_the_node_from_starting(
    folder: StateFolder, squat: tuple[str, ...]
) -> None:
    usual = folder.shm
    subprocess.run([*squat, usual], check=True, user=OWNER, group=OWNER, extra_groups=[])
    try:
        state_folder.prepare_run(folder)
        taken = folder.shm
        found = taken.lstat()
        assert taken != usual and taken.name.startswith(f"stoker-{folder.instance}-")
        assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o755, 0)
        state_folder.prepare_run(folder)  # a later start finds its jobs' segments there
        assert folder.shm == taken and folder.shm_folders == [taken]
        assert teardown.finish(folder).left == []
        assert not taken.exists() and usual.lstat().st_uid == OWNER
    finally:
        for left in (usual, *folder.shm_folders):
            left.rmdir() if left.is_dir() and not left.is_symlink() else left.unlink()
        shutil.rmtree(folder.run, ignore_errors=True)
        with contextlib.suppress(OSError):  # another node has a folder there
            folder.run.parent.rmdir()


def test_the_run_folder_is_open_whatever_the_umask(folder: StateFolder) -> None:
    former = os.umask(0o077)
    try:
        state_folder.prepare_run(folder)
        assert folder.run.stat().st_mode & 0o777 == 0o755
    finally:
        os.umask(former)
        folder.run.rmdir()
        folder.shm.rmdir()
        with contextlib.suppress(OSError):  # another node has a folder there
            folder.run.parent.rmdir()


def test_two_editors_take_turns(folder: StateFolder) -> None:
    order: list[str] = []
    inside = threading.Event()

    def second() -> None:
        inside.wait(5)
        with state_folder.edit_lock(folder):
            order.append("second")

    other = threading.Thread(target=second)
    other.start()
    with state_folder.edit_lock(folder):
        inside.set()
        order.append("first")
    other.join(60)
    assert order == ["first", "second"]
