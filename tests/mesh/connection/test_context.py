# SPDX-License-Identifier: Apache-2.0
"""The places in which a client looks for a node, their order, and the error if there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.mesh.connection import context
from stoker.native.errors import Corrupt, Denied, NotFound


@pytest.fixture
def place(tmp_path: Path, monkeypatch: Any) -> Path:
    """An environment with a home and run folders of the test's own."""
    monkeypatch.setattr(context, "run_folders", lambda state: (tmp_path / "run" / state.name,))
    monkeypatch.setattr(context, "default_state", lambda: tmp_path / "default")
    monkeypatch.setattr(context, "_login", lambda: "alice")
    return tmp_path


def make_node(place: Path, name: str, *keys: str) -> Path:
    state = place / name
    (state / "keys").mkdir(parents=True)
    for key in keys:
        (state / "keys" / f"{key}.nk").write_text("S")
    (place / "run" / name).mkdir(parents=True)
    endpoint = {
        "url": f"tls://{name}",
        "cluster": "c",
        "node": "n",
        "state": str(state),
        "certificate": f"/run/{name}.crt",
    }
    (place / "run" / name / "endpoint.json").write_text(json.dumps(endpoint))
    return state


def save(place: Path, **fields: str) -> dict[str, str]:
    path = place / "config/stoker/context.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(fields))
    return {"XDG_CONFIG_HOME": str(place / "config")}


def test_the_named_state_wins_over_everything(place: Path) -> None:
    named = make_node(place, "named", "user-alice")
    other = make_node(place, "other", "user-alice")
    environ = save(place, url="tls://saved", seed_file="/s", user="a", certificate_file="/c")
    environ["STOKER_STATE"] = str(other)
    assert context.find(str(named), environ).url == "tls://named"
    assert context.find(None, environ).url == "tls://other"
    del environ["STOKER_STATE"]
    assert context.find(None, environ).url == "tls://saved"
    make_node(place, "default", "user-alice")
    assert context.find(None, {"HOME": str(place)}).url == "tls://default"


def test_a_named_state_without_a_node_is_not_replaced_by_another(place: Path) -> None:
    make_node(place, "default", "user-alice")
    with pytest.raises(
        NotFound, match=r"no stoker node found in \S*empty: start one with `stoker up`"
    ):
        context.find(str(place / "empty"), {})


def test_a_node_that_is_down_is_not_said_to_be_nowhere(place: Path) -> None:
    (place / "mine").mkdir()
    (place / "mine/cluster.json").write_text("{}")
    with pytest.raises(NotFound, match=r"the node of \S*mine is down: start it with `stoker up`"):
        context.find(str(place / "mine"), {})


def test_a_server_that_waits_for_others_is_not_said_to_be_down(place: Path) -> None:
    (place / "mine").mkdir()
    record = place / "mine/cluster.json"
    record.write_text('{"wanted": 3, "servers": [{"node": "first"}, {"node": "second"}]}')
    with pytest.raises(NotFound, match=r"begins once its 3 servers have joined.*cluster token"):
        context.find(str(place / "mine"), {})
    record.write_text('{"wanted": 3, "servers": [{}, {}, {}]}')
    with pytest.raises(NotFound, match="is down"):
        context.find(str(place / "mine"), {})


def test_a_damaged_record_of_a_node_that_is_down_is_left_to_its_start(place: Path) -> None:
    (place / "mine").mkdir()
    (place / "mine/cluster.json").write_bytes(b"{")
    with pytest.raises(NotFound, match="is down: start it with `stoker up`"):
        context.find(str(place / "mine"), {})


def test_ones_own_key_comes_before_the_administrators(place: Path) -> None:
    both = make_node(place, "both", "admin", "user-alice")
    found = context.find(str(both), {})
    assert (found.user, found.seed_file.name) == ("alice", "user-alice.nk")
    only = make_node(place, "only", "admin")
    assert context.find(str(only), {}).user == "admin"
    none = make_node(place, "none", "user-bob")
    with pytest.raises(NotFound, match="no key for alice"):
        context.find(str(none), {})


def test_a_saved_context_follows_the_node_to_another_port(place: Path) -> None:
    state = make_node(place, "moved")
    environ = save(place, url="tls://old", seed_file="~/k", user="bob", state=str(state))
    found = context.find(None, environ)
    assert found.url == "tls://moved"
    assert found.seed_file == Path("~/k").expanduser()
    assert found.certificate == Path("/run/moved.crt")


def test_a_saved_context_without_its_node_needs_a_certificate(place: Path) -> None:
    """A context without a certificate is refused: any program at the address would be trusted."""
    environ = save(place, url="tls://far", seed_file="/s", user="a")
    with pytest.raises(NotFound, match="names no certificate of the broker"):
        context.find(None, environ)


def test_a_broken_context_is_named(place: Path) -> None:
    environ = save(place, url="tls://x")
    with pytest.raises(Corrupt, match=r"context\.json"):
        context.find(None, environ)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_an_endpoint_that_somebody_else_planted_is_not_used(place: Path) -> None:
    state = make_node(place, "planted", "user-alice")
    os.chown(place / "run/planted/endpoint.json", 12345, 12345)
    with pytest.raises(NotFound):
        context.find(str(state), {})


def test_somebody_elses_node_is_denied_with_what_to_do(place: Path, monkeypatch: Any) -> None:
    state = make_node(place, "theirs")

    def refuse(self: Path) -> bool:
        if self.suffix == ".nk":
            raise PermissionError
        return True

    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(Denied, match="stoker user add alice"):
        context.find(str(state), {})


def test_the_instance_is_of_the_real_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert context.instance(tmp_path / "link") == context.instance(tmp_path / "real")
    assert context.instance(tmp_path) != context.instance(tmp_path / "real")


@pytest.mark.needs_root
def test_a_home_out_of_reach_has_no_context(tmp_path: Path) -> None:
    """A home that cannot be read has no context, as after `sudo -u alice` with root's HOME."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    script = (
        "import os, sys; sys.path.insert(0, 'src'); from stoker.mesh.connection import context;"
        "os.setuid(61001)\n"
        "try: context.find(None, {'HOME': sys.argv[1]})\n"
        "except Exception as error: print(type(error).__name__)"
    )
    (tmp_path / "closed").mkdir(mode=0o700)
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "closed/home"],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert done.stdout in ("NotFound\n", "Denied\n"), done.stderr
