# SPDX-License-Identifier: Apache-2.0
"""Other nodes of a host are found by their records, which are read as hostile input."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stoker.agent.state import state_folder
from stoker.agent.state.host_facts import boot_id
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import other_nodes, pids
from stoker.mesh.connection.context import NodeEndpoint
from stoker.native.errors import Refused

URL = "tls://127.0.0.1:20007"


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateFolder:
    """The node that starts, on a host whose run folders lie in `tmp_path`."""
    monkeypatch.setattr(other_nodes, "_ROOTS", ((str(tmp_path / "run"), "*"),))
    return state_folder.locate(tmp_path / "state")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process of this user in place of a supervisor."""
    started = subprocess.Popen(["sleep", "600"])
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def say(folder: Path, pid: int, root: str = "/srv/a", url: str = URL) -> Path:
    folder.mkdir(parents=True)
    supervisor = pids.identify(pid)
    assert supervisor is not None
    state_folder.write_json(folder / "endpoint.json", NodeEndpoint(url, "c", "n", root, "crt"))
    known = pids.Pids(boot_id(), {pids.SUPERVISOR: supervisor})
    state_folder.write_json(folder / "pids.json", known)
    return folder


def test_a_second_node_is_started_only_when_it_is_wanted(
    where: StateFolder, tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    assert other_nodes.check(where, wanted=False) == []
    say(tmp_path / "run/other", process.pid)
    say(tmp_path / "run" / where.instance, process.pid)
    (found,) = other_nodes.check(where, wanted=True)
    assert found.text == f"{URL}, your node in /srv/a"
    assert found.way == "export STOKER_STATE=/srv/a"
    with pytest.raises(Refused, match=r"runs on this host already: .*/srv/a.*stoker up --beside"):
        other_nodes.check(where, wanted=False)
    process.kill()
    process.wait()
    assert other_nodes.check(where, wanted=False) == []


@pytest.mark.needs_root
def test_a_node_of_another_user_forbids_nothing(where: StateFolder, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start a process of somebody else")
    theirs = subprocess.Popen(["sleep", "600"], user=61001)
    try:
        folder = say(tmp_path / "run/other", theirs.pid)
        assert other_nodes.running(where) == [], "its files are not those of its process's user"
        for name in ("endpoint.json", "pids.json"):
            os.chown(folder / name, 61001, 61001)
        (found,) = other_nodes.check(where, wanted=False)
        assert found.text == f"{URL}, the node of uid 61001 in /srv/a"
        assert found.way == "uid 61001 gives out keys: stoker user add root"
    finally:
        theirs.kill()
        theirs.wait()


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "no JSON": lambda path: path.write_bytes(b"{"),
    "no text": lambda path: path.write_bytes(b"\xff" * 100),
    "a link": _link,
    "a pipe that nobody writes to": _fifo,
    "huge": lambda path: path.write_bytes(b"[" * 1_000_000),
}


@pytest.mark.parametrize("name", ["endpoint.json", "pids.json"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_others_planted_is_no_node(
    where: StateFolder, tmp_path: Path, process: subprocess.Popen[bytes], name: str, damage: str
) -> None:
    DAMAGES[damage](say(tmp_path / "run/other", process.pid) / name)
    assert other_nodes.running(where) == []


def test_nothing_that_moves_a_terminal_is_printed(
    where: StateFolder, tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    say(tmp_path / "run/other", process.pid, root="/srv/\x1b[2J")
    assert other_nodes.running(where) == []
