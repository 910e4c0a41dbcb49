# SPDX-License-Identifier: Apache-2.0
"""`stoker config` as people type it: what it writes, shows and refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stoker.agent.commands.config_commands import config_command
from stoker.native.errors import BadRequest, Refused

STOKER = Path(sys.executable).with_name("stoker")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


def config(*words: str, folder: Path, stdin: str = "") -> Result:
    return CliRunner().invoke(config_command, [*words, "--state", str(folder)], input=stdin)


def test_init_writes_a_private_file_once(folder: Path) -> None:
    done = config("init", folder=folder)
    assert done.exit_code == 0, done.output
    file = folder / "config.toml"
    assert (folder.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    file.write_text("# mine\n")
    done = config("init", folder=folder)
    assert isinstance(done.exception, Refused)
    assert "is there already" in str(done.exception)
    assert file.read_text() == "# mine\n"


def test_what_init_wrote_is_valid_and_changes_nothing(folder: Path) -> None:
    config("init", folder=folder)
    assert config("validate", folder=folder).output.endswith("no fault\n")
    rows = json.loads(config("print", "--changed", "-o", "json", folder=folder).output)
    assert rows == {"schema": "stoker/v1", "settings": []}


def test_validate_prints_one_line_for_each_fault(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    file = folder / "config.toml"
    file.write_text("[up]\nprot = 1\n\n[retention]\njobs = 'x'\n\"a\\u001b[2J\" = 1\n")
    done = config("validate", folder=folder)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[:2] == [
        f"{file}:2: up.prot is no setting: perhaps port is meant",
        f'{file}:5: retention.jobs is "x": it must be a whole number',
    ]
    assert "\x1b" not in done.output
    assert done.stdout == ""


def test_validate_tells_a_program_each_fault_with_its_line(folder: Path) -> None:
    done = config("validate", "-", "-o", "json", folder=folder, stdin="[up]\nprot = 1\n")
    assert done.exit_code == 2
    assert json.loads(done.output)["faults"] == [
        {"setting": "up.prot", "line": 2, "text": "is no setting: perhaps port is meant"}
    ]
    done = config("validate", "-", "-o", "json", folder=folder, stdin="")
    assert (done.exit_code, json.loads(done.output)["faults"]) == (0, [])


def test_validate_takes_another_file_and_standard_input(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "next.toml").write_text("[up]\nport = 1\n")
    done = config("validate", str(tmp_path / "next.toml"), folder=folder)
    assert (done.exit_code, done.output) == (0, f"{tmp_path}/next.toml: 1 setting, no fault\n")
    done = config("validate", "-", folder=folder, stdin="x = 1")
    assert (done.exit_code, done.stderr.partition(":")[0]) == (2, "-")
    assert config("validate", "absent.toml", folder=folder).exit_code == 2
    assert not folder.exists()


def test_print_shows_the_source_of_each_value(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir(mode=0o700)
    (folder / "config.toml").write_text("[retention]\njobs = 7\n[otlp]\nheaders = { A = 's3' }\n")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://u:s3@c:1")
    done = config("print", "--changed", folder=folder)
    assert [line.split()[0] for line in done.output.splitlines()[2:]] == [
        "retention.jobs",
        "otlp.endpoint",
        "otlp.headers",
    ]
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in done.output
    assert "s3" not in done.output
    rows = [
        json.loads(line)
        for line in config("print", "-o", "jsonl", folder=folder).output.splitlines()
    ]
    row = {"key": "retention.jobs", "value": 7, "source": "file", "default": 10_000}
    assert {"schema": "stoker/v1", **row} in rows
    assert "s3" not in str(rows)


def test_print_refuses_a_file_with_a_fault(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder / "config.toml").write_text("[up\n")
    done = config("print", folder=folder)
    assert isinstance(done.exception, BadRequest)
    assert "config.toml:1: it is not TOML" in str(done.exception)


def test_up_starts_nothing_with_a_fault_anywhere_in_the_file(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder / "config.toml").write_text("[up]\nport = 4444\n[retentoin]\njobs = 1\n")
    done = subprocess.run(
        [STOKER, "up", "--state", str(folder)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "retentoin is no table of settings: perhaps retention is meant" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["config.toml"]
