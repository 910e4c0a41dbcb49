# SPDX-License-Identifier: Apache-2.0
"""up, down, user and install-service as people type them: messages, exit codes, side effects."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest

from stoker.agent.commands import node_commands
from stoker.agent.commands.node_commands import parse_size
from stoker.agent.state import gossip_files, node_labels, state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import broker_port, lock, own_folder, own_users, process_table, startup
from stoker.mesh.identity import identity

STOKER = Path(sys.executable).with_name("stoker")
ROOT = os.geteuid() == 0


def stoker(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    names = {**os.environ, **environment}
    names.pop("STOKER_STATE", None)
    return subprocess.run(
        [STOKER, *words], env=names, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for state folders, below parents that everybody may enter."""
    return tmp_path / "state"


@pytest.fixture
def where(folder: Path) -> Iterator[StateFolder]:
    """A complete state folder of a node that does not run."""
    made = state_folder.locate(folder)
    state_folder.prepare(made)
    own_folder.load_or_create(made)
    yield made
    assert not made.run.exists()
    assert not made.shm.exists()


def contents(root: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def fake_broker(folder: Path, says: str) -> str:
    path = folder / "nats-server"
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return str(path)


# --- up -------------------------------------------------------------------------------------------


def test_up_without_nats_server(folder: Path) -> None:
    done = stoker("up", "--state", str(folder), STOKER_NATS_SERVER="/nowhere/nats-server")
    assert done.returncode == 1
    assert "nats-server is not installed" in done.stderr
    assert "2.15.1" in done.stderr
    assert not folder.exists()


def test_up_with_an_old_nats_server_names_its_version(folder: Path, tmp_path: Path) -> None:
    old = fake_broker(tmp_path, "nats-server: v2.9.10")
    done = stoker("up", "--state", str(folder), STOKER_NATS_SERVER=old)
    assert done.returncode == 1
    assert done.stderr.startswith(f"stoker: {old}: nats-server 2.9.10 is too old, 2.15.1 is needed")
    assert len(done.stderr.splitlines()) == 1
    assert not folder.exists()


def test_up_with_something_else_as_nats_server(folder: Path, tmp_path: Path) -> None:
    other = fake_broker(tmp_path, "hello")
    done = stoker("up", "--state", str(folder), STOKER_NATS_SERVER=other)
    assert done.returncode == 1
    assert "is not nats-server" in done.stderr
    assert not folder.exists()


def test_up_on_a_port_in_use_says_by_whom(where: StateFolder) -> None:
    before = contents(where.root)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = stoker("up", "--state", str(where.root), "--port", str(port))
    assert done.returncode == 2
    assert f"port {port} is in use by pid {os.getpid()} (" in done.stderr
    assert contents(where.root) == before | {str(where.lock): where.lock.read_bytes()}


def test_up_on_a_port_of_root_says_so_and_leaves_nothing(
    where: StateFolder, tmp_path: Path
) -> None:
    port = broker_port.lowest_open() - 1
    if port < 1:
        pytest.skip("this machine keeps no port for root")
    for folder in (where.root, tmp_path / "new"):
        before = contents(where.root)
        done = stoker("up", "--state", str(folder), "--port", str(port))
        assert done.returncode == 2
        assert f"stoker: port {port} is " in done.stderr
        assert f"Give one from {port + 1} to 65535" in done.stderr or "in use by" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert contents(where.root) == before | {str(where.lock): where.lock.read_bytes()}
    assert not (tmp_path / "new").exists()


@pytest.mark.needs_root
def test_a_start_that_fails_puts_its_options_back(where: StateFolder, tmp_path: Path) -> None:
    if not ROOT:
        pytest.skip("--root-jobs-as is for root")
    says = "[7] 2026/01/01 00:00:00.000000 [FTL] Can't listen on 127.0.0.1:9: bind: no way"
    broker = tmp_path / "nats-server"
    version = '[ "$1" = --version ] && echo nats-server: v2.15.1 && exit'
    broker.write_text(f'#!/bin/sh\n{version}\necho "{says}"\nexit 1\n')
    broker.chmod(0o755)
    before = settings(where)
    words = (
        "--port",
        str(broker_port.choose("0badcafe")),
        "--label",
        "a=b",
        "--root-jobs-as",
        "daemon",
    )
    for more in (words, ()):
        done = stoker("up", "--state", str(where.root), *more, STOKER_NATS_SERVER=str(broker))
        assert done.returncode == 2
        assert done.stderr.startswith(
            "stoker: nats-server: Can't listen on 127.0.0.1:9: bind: no way (ended: exit code 1)."
            f" All started processes were ended; its log is {where.log}/nats-server.log"
        )
        assert len(done.stderr.splitlines()) == 1
        assert settings(where) == before


def settings(where: StateFolder) -> dict[str, bytes]:
    """The labels of earlier starts, as a later start reads them."""
    paths = (where.cluster, where.users, node_labels.file(where))
    return {path.name: path.read_bytes() for path in paths if path.exists()}


@pytest.mark.parametrize(
    "words", [("up",), ("down",), ("power", "budget", "9"), ("power", "status"), ("user", "list")]
)
def test_no_hint_changes_a_folder_that_is_not_stokers(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """STOKER_STATE=/etc is refused without advice on the mode of a foreign folder."""
    (tmp_path / "agent").mkdir()
    (tmp_path / "passwd").write_text("root")
    tmp_path.chmod(0o755)
    before = contents(tmp_path)
    done = stoker(*words, "--state", str(tmp_path))
    assert done.returncode == 2, done.stderr
    assert "is not a stoker state folder: it holds passwd. Choose another" in done.stderr
    assert "chmod" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert contents(tmp_path) == before


@pytest.mark.parametrize("words", [("--port", "0"), ("--port", "x"), ("--log-max-bytes", "many")])
def test_up_with_wrong_options_changes_nothing(folder: Path, words: tuple[str, str]) -> None:
    done = stoker("up", "--state", str(folder), *words)
    assert done.returncode == 2
    assert not folder.exists()


def test_up_where_a_node_runs(where: StateFolder) -> None:
    held = lock.take(where)
    assert held is not None
    try:
        done = stoker("up", "--state", str(where.root))
    finally:
        os.close(held)
    assert done.returncode == 2
    assert f"a node already runs in {where.root} (pid {os.getpid()}" in done.stderr


@pytest.mark.parametrize(
    ("name", "data"),
    [("cluster.json", b"{"), ("format", b"99\n"), ("users.json", b"7"), ("keys/agent.nk", b"")],
)
def test_up_with_a_corrupt_state_folder(where: StateFolder, name: str, data: bytes) -> None:
    (where.root / name).write_bytes(data)
    before = contents(where.root)
    done = stoker("up", "--state", str(where.root))
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert str(where.root) in done.stderr
    after = contents(where.root)
    after.pop(str(where.lock))
    assert after == before


def test_up_with_a_key_that_is_no_seed(where: StateFolder) -> None:
    where.key("agent").write_bytes(b"not a seed\n")
    done = stoker("up", "--state", str(where.root))
    assert done.returncode == 3
    assert "agent.nk" in done.stderr


def test_up_in_a_folder_open_to_others(where: StateFolder) -> None:
    where.root.chmod(0o755)
    done = stoker("up", "--state", str(where.root))
    assert done.returncode == 2
    assert f"chmod 700 {where.root}" in done.stderr


def test_up_where_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    done = stoker("up", "--state", str(tmp_path / "file"))
    assert done.returncode == 2
    assert "is not a folder" in done.stderr
    assert (tmp_path / "file").read_text() == "mine"


def test_up_on_a_full_or_missing_disk_is_one_line(tmp_path: Path) -> None:
    done = stoker("up", "--state", "/proc/stoker")
    assert done.returncode == 2
    assert done.stderr == "stoker: /proc/stoker: No such file or directory\n"
    (tmp_path / "file").touch()
    done = stoker("down", "--state", str(tmp_path / "file/state"))
    assert done.returncode in (0, 2)
    assert "Traceback" not in done.stderr


@pytest.mark.needs_root
def test_up_on_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    if not ROOT:
        pytest.skip("only root can mount a small disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=20,mode=700", "none", tmp_path],
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    try:
        done = stoker("up", "--state", str(tmp_path / "state"))
        assert done.returncode == 2
        assert "No space left on device" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert not (tmp_path / "state/format").exists()
    finally:
        subprocess.run(["umount", tmp_path], check=True)


@pytest.mark.needs_root
def test_root_jobs_need_a_user_that_exists(where: StateFolder) -> None:
    if not ROOT:
        pytest.skip("--root-jobs-as is for root")
    done = stoker("up", "--state", str(where.root), "--root-jobs-as", "no-such-user")
    assert done.returncode == 2
    assert "no-such-user" in done.stderr


@pytest.mark.needs_root
@pytest.mark.parametrize(
    ("sudo_user", "expected"), [("", "nobody"), ("root", "nobody"), ("daemon", "daemon")]
)
def test_roots_jobs_never_run_as_root_by_themselves(
    folder: Path, sudo_user: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not ROOT:
        pytest.skip("only root's jobs are mapped")
    monkeypatch.setenv("SUDO_USER", sudo_user)
    where = state_folder.locate(folder)
    state_folder.prepare(where)
    own_folder.load_or_create(where)
    table = own_users.load(where)
    assert {row.unix_user for row in table.values()} == {expected}
    table = own_users.map_caller(where, "root")
    assert table["root"].unix_user == "root"
    assert own_folder.load_or_create(where) and own_users.load(where) == table


# --- down -----------------------------------------------------------------------------------------


def test_down_where_nothing_runs(where: StateFolder) -> None:
    done = stoker("down", "--state", str(where.root))
    assert (done.returncode, done.stdout) == (0, f"nothing runs in {where.root}\n")


def test_down_where_nothing_ever_was(folder: Path) -> None:
    done = stoker("down", "--state", str(folder))
    assert done.returncode == 0
    assert not folder.exists()


# --- user -----------------------------------------------------------------------------------------


@pytest.mark.needs_root
def test_a_key_into_a_file(where: StateFolder, tmp_path: Path) -> None:
    if not ROOT:
        pytest.skip("a node without root serves its own user alone")
    out = tmp_path / "bot.nk"
    words = ("bot", "--unix-user", "daemon", "--key-out", str(out), "--state", str(where.root))
    done = stoker("user", "add", *words)
    assert done.returncode == 0, done.stderr
    assert "their jobs run as daemon" in done.stdout
    assert "from the next `stoker up` on" in done.stdout
    assert out.stat().st_mode & 0o777 == 0o600
    assert out.owner() == "daemon"
    public = identity.Identity(out.read_bytes().strip()).public
    assert own_users.load(where)["bot"].public_key == public
    assert public in (where.nats / "nats-server.conf").read_text()
    assert out.read_bytes().strip() not in b"".join(contents(where.root).values())
    again = stoker("user", "add", *words)
    assert again.returncode == 2
    assert "has a key already" in again.stderr

    listed = json.loads(stoker("user", "list", "--state", str(where.root), "-o", "json").stdout)
    assert listed["schema"] == "stoker/v1"
    assert [row["name"] for row in listed["users"]] == ["admin", "bot", "root"]

    assert stoker("user", "remove", "bot", "--state", str(where.root)).returncode == 0
    assert public not in (where.nats / "nats-server.conf").read_text()
    assert "bot" not in own_users.load(where)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("no-such-user",), 1, "knows no user 'no-such-user'"),
        (("boss", "--unix-user", "root"), 2, "no key is given out whose jobs run as root"),
        (("../../etc",), 2, "cannot be a user name"),
        (("-x",), 2, "-x"),
        (("a" * 65, "--unix-user", "daemon"), 2, "1 to 64"),
    ],
)
def test_users_that_cannot_be_added(
    where: StateFolder, words: tuple[str, ...], code: int, text: str
) -> None:
    before = contents(where.root)
    done = stoker("user", "add", *words, "--state", str(where.root))
    assert done.returncode == code
    assert text in done.stderr
    assert contents(where.root) == before


@pytest.mark.needs_root
def test_a_key_is_not_written_over_a_file(where: StateFolder, tmp_path: Path) -> None:
    if not ROOT:
        pytest.skip("a node without root serves its own user alone")
    out = tmp_path / "precious"
    out.write_text("mine")
    words = ("bot", "--unix-user", "daemon", "--key-out", str(out), "--state", str(where.root))
    done = stoker("user", "add", *words)
    assert done.returncode == 2
    assert out.read_text() == "mine"
    assert "bot" not in own_users.load(where)


def test_other_users_need_a_node_of_root(where: StateFolder) -> None:
    if ROOT:
        pytest.skip("this is about a node without root")
    done = stoker("user", "add", "daemon", "--state", str(where.root))
    assert "does not run as root" in done.stderr


@pytest.mark.parametrize("name", ["admin", "nobody-knows"])
def test_users_that_cannot_be_removed(where: StateFolder, name: str) -> None:
    before = contents(where.root)
    done = stoker("user", "remove", name, "--state", str(where.root))
    assert done.returncode in (1, 2)
    assert name in done.stderr
    assert contents(where.root) == before


# --- install-service ------------------------------------------------------------------------------


@pytest.mark.parametrize("user", [False, True])
def test_units_are_valid_and_disabled(user: bool, tmp_path: Path) -> None:
    words = ("install-service", *(("--user",) if user else ()), "--root", str(tmp_path))
    done = stoker(*words, XDG_CONFIG_HOME="/home/somebody/.config")
    assert done.returncode == 0, done.stderr
    found = list(tmp_path.rglob("stoker.service"))
    assert len(found) == 1
    assert not list(tmp_path.rglob("*.wants"))
    lines = found[0].read_text().splitlines()
    assert "NoNewPrivileges=yes" in lines
    assert "Type=notify" in lines
    assert f"ExecStart={STOKER} up --foreground $STOKER_UP_OPTIONS" in lines
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd-analyze is not installed: the unit's syntax was not checked")
    checked = subprocess.run(
        [verify, "verify", str(found[0])], capture_output=True, text=True, timeout=60, check=False
    )
    assert checked.stderr == ""
    assert checked.returncode == 0


def test_every_unusual_line_of_the_unit_has_its_reason() -> None:
    text = stoker("install-service", "--dry-run").stdout
    service = text[text.index("[Service]") : text.index("[Install]")].splitlines()
    comments = "\n".join(line for line in service if line.startswith("#"))
    for capability in {w for line in service if line.startswith("Capab") for w in line.split()}:
        name = capability.rpartition("=")[2].removeprefix("CAP_")
        assert name in comments, name


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    done = stoker("install-service", "--dry-run", "--root", str(tmp_path))
    assert done.returncode == 0
    assert done.stdout.startswith(f"# {tmp_path}/etc/systemd/system/stoker.service\n")
    assert list(tmp_path.iterdir()) == []


def test_a_unit_of_somebody_else_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "etc/systemd/system/stoker.service"
    path.parent.mkdir(parents=True)
    path.write_text("[Service]\nExecStart=/opt/other\n")
    done = stoker("install-service", "--root", str(tmp_path))
    assert done.returncode == 2
    assert path.read_text() == "[Service]\nExecStart=/opt/other\n"


def test_an_unchanged_unit_is_reported(tmp_path: Path) -> None:
    assert "written" in stoker("install-service", "--root", str(tmp_path)).stdout
    assert "unchanged" in stoker("install-service", "--root", str(tmp_path)).stdout


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("65536", 65536), ("64MiB", 64 << 20), ("64M", 64 << 20), ("2GB", 2 * 10**9)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1.5G", "64 MiB", "1TB", "²"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_size(text)


def test_a_host_without_serf_says_so_once_and_is_up(
    where: StateFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = state_folder.load(where)
    reached = msgspec.structs.replace(alone, address="127.0.0.2")

    def warned(cluster: state_folder.ClusterFile) -> list[str]:
        node_commands._print_started(startup.StartedNode(where, cluster, 1, {}, ""))
        said = capsys.readouterr()
        assert said.out.startswith("stoker is up: ")
        return said.err.splitlines()

    monkeypatch.setattr(gossip_files, "program", lambda: None)
    assert warned(alone) == [], "it takes no other hosts"
    assert warned(reached) == [
        "stoker: this host is no member of the gossip mesh: serf is not installed on this host"
    ]
    names = {each.spec.name for each in process_table.programs(where, reached, allow_root=False)}
    assert "serf" not in names
    (where.root / "config.toml").write_text("[gossip]\nenabled = false\n")
    assert warned(reached) == [], "it was turned off"
