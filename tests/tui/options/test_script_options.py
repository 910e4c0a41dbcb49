# SPDX-License-Identifier: Apache-2.0
"""Flags in scripts: what `#STOKER` and `#SBATCH` lines are, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from stoker.native.errors import BadRequest
from stoker.tui.commands import start_commands
from stoker.tui.options import script_options


def flags(*lines: str) -> list[str]:
    found = script_options.directives("job.sh", "\n".join(("#!/bin/sh", *lines)))
    return [flag for each in found for flag in each.flags]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("#STOKER --gpus 0.5 --name 'a b'  # half", ["--gpus", "0.5", "--name", "a b"]),
        ("#SBATCH --job-name=train -t 90", ["--name", "train", "--time", "90m"]),
        ("#SBATCH --time=1-12:00:00 --mem 4096", ["--time", "1-12:00:00", "--mem", "4096M"]),
        ("#SBATCH --mem=4G -c4", ["--mem", "4G", "--cpus", "4"]),
        ("#SBATCH --gres=gpu:a100:2", ["--gpus", "2", "--gpu-model", "a100"]),
        ("#SBATCH --gres=gpu", ["--gpus", "1"]),
        ("#SBATCH -N 2 --ntasks-per-node=4", ["--nodes", "2", "--tasks-per-node", "4"]),
        ("#SBATCH -n 8 --gpus-per-task=1", ["--tasks", "8", "--gpus", "1"]),
        ("#SBATCH -p prod -a 0-9:2", ["--queue", "prod", "--array", "0-9:2"]),
        ("#SBATCH -d afterok:7:9,afterany:3", ["--after", "7-,9-", "--after-any", "3-"]),
        (
            "#SBATCH --export=ALL,SEED=3 -D /data",
            ["--env-all", "--env", "SEED=3", "--cwd", "/data"],
        ),
        ("#SBATCH --requeue", ["--restart", "on-node-loss"]),
        ("#SBATCH -N1 -n1 --mem=4G", ["--nodes", "1", "--tasks", "1", "--mem", "4G"]),
        ("# SBATCH --mem=4G", []),
        ("##SBATCH --mem=4G", []),
    ],
)
def test_a_line_is_flags(line: str, wanted: list[str]) -> None:
    assert flags(line) == wanted


def test_flags_end_with_the_first_command() -> None:
    assert flags("", "# why", "#STOKER --gpus 1", "echo", "#STOKER --gpus 2") == ["--gpus", "1"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "#SBATCH --output=log",
            "job.sh:3: #SBATCH --output is not taken. stoker keeps what a job",
        ),
        ("#SBATCH -o log", "--output is not taken"),
        ("#SBATCH --qos=high", "--qos is not taken. say --priority"),
        ("#SBATCH --wckey=x", "--wckey is not taken. stoker takes --job-name, --time"),
        ("#SBATCH --gres=tpu:1", "--gres 'tpu:1' is not taken. gpu, gpu:N"),
        ("#SBATCH -d singleton", "--dependency 'singleton' is not taken. afterok"),
        ("#SBATCH --mem", "--mem needs a value"),
        ("#SBATCH -n 4 --gpus=4", "--gpus is not taken with --ntasks: Slurm counts it for a whole"),
        ("#SBATCH --nodes=2 --mem=4G", "say --mem, which counts for each task"),
        ("#SBATCH mem", "'mem' is no option"),
        ("#STOKER --name 'a", "job.sh:3: #STOKER No closing quotation"),
    ],
)
def test_what_is_not_taken_is_named_with_its_line(line: str, said: str) -> None:
    with pytest.raises(BadRequest) as raised:
        flags("# a comment", line)
    assert said in str(raised.value)


def test_every_flag_that_slurm_is_turned_into_exists() -> None:
    known = {each for param in start_commands.submit_command.params for each in param.opts}
    values = {"--gres": "gpu:a:1", "--gpus": "a:1", "--gpus-per-task": "a:1", "--export": "ALL,A",
              "--dependency": "afterok:1,afterany:2,afternotok:3"}  # fmt: skip
    made = [f for name, turn in script_options._TAKEN.items() for f in turn(values.get(name, "1"))]
    made += [flag for plain in script_options._PLAIN.values() for flag in plain]
    assert {flag for flag in made if flag.startswith("--")} <= known


def test_the_command_line_goes_before_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.sh").write_text("#!/bin/sh\n#STOKER --gpus 1 --name script\necho\n")
    Path("program").write_bytes(b"\x7fELF #STOKER --gpus 9\n")
    for words, gpus, name, argv in (
        (["job.sh", "-x"], 1000, "script", ("./job.sh", "-x")),
        (["--name", "mine", "./job.sh"], 1000, "mine", ("./job.sh",)),
        (["--gpus", "2", "--", "job.sh"], 2000, "script", ("./job.sh",)),
        (["program"], 0, "", ("program",)),
        (["no-such-file"], 0, "", ("no-such-file",)),
    ):
        context = start_commands.submit_command.make_context("submit", list(words))
        found = context.params
        assert (found["gpus"], found["name"], found["argv"]) == (gpus, name, argv), words
    with pytest.raises(click.MissingParameter):
        start_commands.submit_command.make_context("submit", ["--gpus", "1"])
    with pytest.raises(click.UsageError, match="No such option"):
        start_commands.submit_command.make_context("submit", ["--tiem", "3", "job.sh"])
