# SPDX-License-Identifier: Apache-2.0
"""Options of `up` over those of config.toml."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise.start_options import StartOptions, with_file
from stoker.native.errors import BadRequest, Refused

FILE = """\
[up]
port = 4333
root_jobs_as = "nobody"
log_max_bytes = 131072
nats_server = "/opt/nats-server"
command_log_max_bytes = 2097152
"""


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateFolder:
    for name in ("STOKER_NATS_SERVER", "STOKER_SCHEDULER_LOG_MAX_BYTES"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    made = state_folder.locate(tmp_path / "state")
    made.root.mkdir(mode=0o700)
    return made


def test_no_file_changes_nothing(where: StateFolder) -> None:
    options = StartOptions(port=1)
    assert with_file(options, where) is options


def test_the_command_line_goes_before_the_file(where: StateFolder) -> None:
    (where.root / "config.toml").write_text(FILE)
    made = with_file(StartOptions(port=5000), where)
    assert (made.port, made.root_jobs_as, made.log_max_bytes) == (5000, "nobody", 131072)
    assert made.said("port") == "--port"
    assert made.said("root_jobs_as") == "up.root_jobs_as in config.toml"


def test_the_environment_goes_before_the_file(
    where: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (where.root / "config.toml").write_text(FILE)
    monkeypatch.setenv("STOKER_NATS_SERVER", "/mine")
    with_file(StartOptions(), where)
    assert os.environ["STOKER_NATS_SERVER"] == "/mine"
    assert os.environ["STOKER_SCHEDULER_LOG_MAX_BYTES"] == "2097152"


def test_one_fault_anywhere_in_the_file_is_refused_with_the_number_of_the_others(
    where: StateFolder,
) -> None:
    file = where.root / "config.toml"
    file.write_text("[up]\nport = 4333\n[retnetion]\n[nod]\n")
    with pytest.raises(BadRequest) as refused:
        with_file(StartOptions(), where)
    assert refused.value.message.startswith(f"{file}:3: retnetion is no table of settings")
    assert refused.value.hint == "1 more fault: `stoker config validate` checks the file"


def test_a_file_in_a_folder_that_is_open_to_others_is_not_read(where: StateFolder) -> None:
    (where.root / "config.toml").write_text(FILE)
    where.root.chmod(0o755)
    with pytest.raises(Refused, match="open to others"):
        with_file(StartOptions(), where)
