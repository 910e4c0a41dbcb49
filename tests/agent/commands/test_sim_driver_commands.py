# SPDX-License-Identifier: Apache-2.0
"""`stoker sim driver`: the command runs on simulated cards, which leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from stoker.agent.commands.sim_driver_commands import sim_driver_command
from stoker.native.errors import StokerError

STOKER = [sys.executable, "-m", "stoker", "sim", "driver"]


def run(*argv: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*STOKER, *argv],
        env=os.environ | {"TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_profiles_are_listed() -> None:
    done = CliRunner().invoke(sim_driver_command, ["--list"])
    assert done.exit_code == 0
    assert "8xH200       8 x NVIDIA H200\n" in done.output


def test_a_command_sees_the_cards_and_leaves_nothing(tmp_path: Path) -> None:
    program = "import pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(3)\n"
    program += "print(n.nvmlDeviceGetName(h), n.nvmlDeviceGetUtilizationRates(h).gpu)\n"
    program += "raise SystemExit(7)"
    options = ["--profile", "4xL40S", "--virtual", "--settle", "5", "--load", "all:1,0.5"]
    done = run(*options, "--", sys.executable, "-c", program, folder=tmp_path)
    assert done.returncode == 7
    assert done.stdout == "NVIDIA L40S 100\n"
    assert done.stderr == "SIM: 4xL40S, 4 simulated cards\n"
    assert list(tmp_path.iterdir()) == []


def test_numa_nodes_lie_beside_the_cards(tmp_path: Path) -> None:
    program = "import os, pathlib; at = pathlib.Path(os.environ['STOKER_SIM_NODE']).parent\n"
    program += "nodes = at / 'sys/devices/system/node'\n"
    program += "print([(p.parent.name, p.read_text()) for p in sorted(nodes.glob('*/cpulist'))])"
    options = ["--numa", "0:0-1,4", "--numa", "12:7"]
    done = run(*options, "--", sys.executable, "-c", program, folder=tmp_path)
    assert done.stdout == "[('node0', '0-1,4\\n'), ('node12', '7\\n')]\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["0", "x:1", "0:", "0:1-", "0:a", "-1:0", "0:1 2"])
def test_what_is_no_numa_node_is_refused(text: str) -> None:
    done = CliRunner().invoke(sim_driver_command, ["--numa", text, "--", "true"])
    assert done.exit_code == 2
    assert "is no NODE:CPUS" in done.output


def test_a_signal_is_passed_on_and_reported(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    program = "import time; print('up', flush=True); time.sleep(60)"
    argv = [*STOKER, "--", sys.executable, "-c", program]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        assert running.stdout.readline() == "up\n"
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_a_script_of_faults_is_heeded(tmp_path: Path) -> None:
    script = tmp_path / "faults.toml"
    script.write_text('[[fault]]\nkind = "lost"\ncard = 0\n')
    program = "import pynvml as n; n.nvmlInit(); n.nvmlDeviceGetHandleByIndex(0)"
    argv = ["--fault", str(script), "--", sys.executable, "-c", program]
    done = run(*argv, folder=tmp_path)
    assert done.returncode == 1
    assert "GPU is lost" in done.stderr


def test_a_function_that_the_driver_lacks_is_not_found(tmp_path: Path) -> None:
    script = tmp_path / "faults.toml"
    script.write_text('[[fault]]\nkind = "missing"\ncall = "TotalEnergy"\n')
    program = "import pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)\n"
    program += "print(n.nvmlDeviceGetPowerUsage(h) > 0); n.nvmlDeviceGetTotalEnergyConsumption(h)"
    done = run("--fault", str(script), "--", sys.executable, "-c", program, folder=tmp_path)
    assert done.stdout == "True\n"
    assert done.stderr.endswith("NVMLError_FunctionNotFound: Function Not Found\n")
    assert list(tmp_path.iterdir()) == [script]


def test_what_a_killed_run_left_goes_with_the_next_but_not_while_its_command_lives(
    tmp_path: Path,
) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    shared = set(Path("/dev/shm").iterdir())
    program = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    argv = [*STOKER, "--", sys.executable, "-c", program]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        child = int(running.stdout.readline())
        running.kill()
        running.wait(60)
        (left,) = tmp_path.iterdir()
        assert run("--", "true", folder=tmp_path).stderr == "SIM: 8xH200, 8 simulated cards\n"
        assert list(tmp_path.iterdir()) == [left]
        os.kill(child, signal.SIGKILL)
        assert running.stdout.read() == ""  # the child is gone as well
    done = run("--", "true", folder=tmp_path)
    said = f"SIM: removed {left}, which a killed run had left\n"
    assert done.stderr == said + "SIM: 8xH200, 8 simulated cards\n"
    assert list(tmp_path.iterdir()) == []
    assert {path for path in Path("/dev/shm").iterdir() if "sim" in path.name} <= shared


def test_folders_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "stoker-sim-unlocked").mkdir()
    (tmp_path / "stoker-sim-file").write_text("x")
    (tmp_path / "stoker-sim-link").mkdir()
    (tmp_path / "stoker-sim-link" / "lock").symlink_to("/nowhere")
    run("--", "true", folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (b"\xff", "no text"),
        (b'[[fault]]\nkind = "rust"\n', "fault 1: kind 'rust' is none of"),
        (b'[[fault]]\nkind = "xid"\ncard = 8\n', "no card 8"),
        (b'[[fault]]\nkind = "missing"\ncall = "nvmlNothing"\n', "'nvmlNothing'"),
    ],
)
def test_a_wrong_script_is_refused_in_a_line_and_leaves_nothing(
    script: bytes, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / "faults.toml"
    path.write_bytes(script)
    done = CliRunner().invoke(sim_driver_command, ["--fault", str(path), "--", "true"])
    assert isinstance(done.exception, StokerError)
    assert told in str(done.exception)
    assert "\n" not in str(done.exception)
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_made_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    done = CliRunner().invoke(sim_driver_command, ["--", "true"])
    assert str(done.exception) == "no folder for the simulated node: No such file or directory"


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ([], "no command"),
        (["--profile", "9xZ1", "--", "true"], "no profile"),
        (["--load", "1", "--", "true"], "CARD:COMPUTE"),
        (["--load", "1:2", "--", "true"], "0 to 1"),
        (["--load", "9:1", "--", "true"], "no card 9"),
        (["--settle", "5", "--", "true"], "--virtual"),
        (["--", "/nowhere/at/all"], "No such file"),
    ],
)
def test_wrong_options_are_refused_and_leave_nothing(
    argv: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = CliRunner().invoke(sim_driver_command, argv)
    assert done.exit_code != 0
    assert isinstance(done.exception, SystemExit | StokerError)
    assert told in f"{done.output} {done.exception}"
    assert list(tmp_path.iterdir()) == []
