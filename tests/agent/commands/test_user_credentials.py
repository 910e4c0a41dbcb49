# SPDX-License-Identifier: Apache-2.0
"""Files for another user: theirs, private, and never through a link that they made."""

from __future__ import annotations

import json
import os
import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.agent.commands import user_credentials
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.native.errors import Refused

USER = pwd.getpwnam("daemon") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
STATE = Path("/var/lib/stoker")
CLUSTER = ClusterFile("c", "n", "k", 4222)
PINNED = b"-----BEGIN CERTIFICATE-----"


class Where(StateFolder, frozen=True):
    """A state folder that holds only the certificate."""

    pinned: Path

    @property
    def broker_certificate(self) -> Path:
        return self.pinned


@pytest.fixture
def home() -> Iterator[Path]:
    """A home folder that its user can reach, unlike pytest's own folders of root."""
    with tempfile.TemporaryDirectory(prefix="stoker-home-", dir="/tmp") as folder:
        os.chown(folder, USER.pw_uid, USER.pw_gid)
        yield Path(folder)


def entry(home: Path) -> pwd.struct_passwd:
    return pwd.struct_passwd((*USER[:5], str(home), USER.pw_shell))


def deliver(home: Path, seed: bytes = b"SUxx\n") -> Path:
    """Deliver credentials from a state folder whose certificate lies beside the home."""
    where = Where(STATE, STATE, home.parent / f"{home.name}.crt")
    where.broker_certificate.write_bytes(PINNED)
    try:
        return user_credentials.deliver(entry(home), "alice", where, CLUSTER, seed)
    finally:
        where.broker_certificate.unlink()


def test_what_is_delivered(home: Path) -> None:
    path = deliver(home)
    assert path == home / ".config/stoker/context.json"
    found = json.loads(path.read_bytes())
    assert found == {
        "url": "tls://127.0.0.1:4222",
        "seed_file": str(home / ".config/stoker/user-alice.nk"),
        "user": "alice",
        "state": "/var/lib/stoker",
        "certificate_file": str(home / ".config/stoker/broker.crt"),
    }
    assert (home / ".config/stoker/broker.crt").read_bytes() == PINNED
    assert (home / ".config/stoker/user-alice.nk").read_bytes() == b"SUxx\n"
    for made in home.rglob("*"):
        assert made.stat().st_uid == USER.pw_uid
        assert made.stat().st_gid == USER.pw_gid
        assert made.stat().st_mode & 0o077 == 0
    assert {p.name for p in path.parent.iterdir()} == {
        "context.json",
        "user-alice.nk",
        "broker.crt",
    }


def test_the_process_is_itself_again(home: Path) -> None:
    before = (os.getuid(), os.geteuid(), os.getegid(), sorted(os.getgroups()))
    deliver(home)
    assert (os.getuid(), os.geteuid(), os.getegid(), sorted(os.getgroups())) == before


def test_a_former_context_is_kept(home: Path) -> None:
    former = deliver(home).read_bytes()
    path = deliver(home, b"SUyy\n")
    assert path.with_name("context.json.old").read_bytes() == former
    assert (path.parent / "user-alice.nk").read_bytes() == b"SUyy\n"


@pytest.mark.parametrize("name", [".config", ".config/stoker"])
def test_a_link_in_the_way_is_not_followed(home: Path, name: str, tmp_path: Path) -> None:
    link = home / name
    if link.parent != home:
        link.parent.mkdir()
        os.chown(link.parent, USER.pw_uid, USER.pw_gid)
    target = tmp_path / "target"
    target.mkdir()
    link.symlink_to(target)
    with pytest.raises(Refused, match="--key-out"):
        deliver(home)
    assert list(target.iterdir()) == []


def test_links_in_place_of_files_are_replaced_not_followed(home: Path, tmp_path: Path) -> None:
    path = deliver(home)
    target = tmp_path / "precious"
    target.write_text("mine")
    for name in ("context.json", "user-alice.nk", "context.json.old"):
        path.with_name(name).unlink(missing_ok=True)
        path.with_name(name).symlink_to(target)
    deliver(home)
    assert target.read_text() == "mine"
    assert not path.is_symlink()


@pytest.mark.needs_root
@pytest.mark.parametrize("name", ["", ".config", ".config/stoker"])
def test_folders_of_somebody_else_are_refused(home: Path, name: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make somebody else's folder")
    (home / ".config/stoker").mkdir(parents=True)
    for folder in (home / ".config", home / ".config/stoker"):
        os.chown(folder, USER.pw_uid, USER.pw_gid)
    os.chown(home / name, 0, 0)
    (home / name).chmod(0o777)
    with pytest.raises(Refused):
        deliver(home)
    assert not list(home.rglob("*.nk"))


@pytest.mark.needs_root
def test_a_folder_the_user_cannot_write_is_refused_though_root_could(home: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root could write there")
    home.chmod(0o500)
    with pytest.raises(Refused, match="Permission denied"):
        deliver(home)
    assert list(home.iterdir()) == []


def test_a_home_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="--key-out"):
        deliver(tmp_path / "nonexistent")
