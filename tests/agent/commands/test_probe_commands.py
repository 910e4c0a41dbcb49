# SPDX-License-Identifier: Apache-2.0
"""`stoker probe run` as a person uses it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from stoker.agent.commands import probe_commands

STOKER = Path(sys.executable).parent / "stoker"
SOURCE = """
//@ uprobe c:getppid on_call
BPF_HASH(calls, u32, u64);
int on_call(struct pt_regs *ctx) {
    u32 pid = bpf_get_current_pid_tgid() >> 32;
    if (stoker_wanted()) calls.increment(pid);
    return 0;
}
"""
PROGRAM = "import ctypes; c = ctypes.CDLL(None); [c.getppid() for _ in range(113)]"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "probe.c"
    path.write_text(SOURCE)
    return path


@pytest.mark.needs_bpf
def test_a_command_is_probed_from_its_first_instruction_and_ends_the_probe(source: Path) -> None:
    done = subprocess.run(
        [STOKER, "probe", "run", source, "--for", "50s", "-o", "jsonl", "--",
         sys.executable, "-S", "-c", PROGRAM],
        capture_output=True, timeout=60, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (table,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert [count for _, count in table["rows"]] == [113]
    assert "the command ended with 0" in done.stderr


@pytest.mark.needs_bpf
def test_ctrl_c_detaches_and_prints_the_tables(source: Path) -> None:
    run = subprocess.Popen(
        [STOKER, "probe", "run", source, "--pid", str(os.getpid())],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert run.stderr is not None
    for line in run.stderr:
        if line.startswith("attached"):
            break
    for _ in range(71):
        os.getppid()
    time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=30)
    assert run.returncode == 0
    assert [line.split()[:2] for line in out.splitlines()] == [["calls:"], [str(os.getpid()), "71"]]


def test_wrong_options_are_refused(source: Path, tmp_path: Path) -> None:
    for words, said in (
        (["--pid", "1", "--job", "1"], "at most one of"),
        (["--for", "soon"], "not a time"),
        (["--pid", str(2**22 + 1)], "no process"),
        (["--job", "4711", "--state", str(tmp_path)], "does not run on this machine"),
    ):
        result = CliRunner().invoke(probe_commands.probe_command, ["run", str(source), *words])
        assert result.exit_code != 0
        assert said in f"{result.output}{result.exception}", words


def test_a_job_is_probed_in_the_first_task_of_its_newest_attempt(tmp_path: Path) -> None:
    for name in ("7.2.1", "7.10.3", "17.11.0"):
        (tmp_path / "fenced" / name).mkdir(parents=True)
    for name in ("7.10.1", "7.9.0"):
        (tmp_path / "free" / name).mkdir(parents=True)
    (tmp_path / "cgroup.procs").write_text("")
    assert probe_commands.newest_cgroup(tmp_path, 7) == tmp_path / "free/7.10.1"
    assert probe_commands.newest_cgroup(tmp_path, 1) is None
