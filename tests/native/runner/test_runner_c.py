# SPDX-License-Identifier: Apache-2.0
"""The runner's parsing, journal, index and lease rules under the address and UB sanitizers."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from spawned import NATIVE, SOURCES, VALIDATED, compile_c

from stoker.scheduler.numa_plan import cpu_list

SANITIZE = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def validate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sources = [str(path) for path in VALIDATED]
    target = tmp_path_factory.mktemp("validate") / "validate"
    return compile_c(target, *SANITIZE, f"-I{NATIVE}", str(SOURCES / "validate.c"), *sources)


def check(validate: Path, *arguments: object) -> str:
    command = [str(validate), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_launch_of_any_bytes_is_read_within_its_bytes(validate: Path, seed: int) -> None:
    assert "of 100000 taken" in check(validate, "fuzz", seed, 100_000)


def test_an_empty_launch_is_refused(validate: Path) -> None:
    done = subprocess.run([validate, "parse"], input=b"", capture_output=True, check=True)
    assert done.stdout == b"Bad message: the launch is shorter than it says\n"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_list_is_read_as_the_kernel_writes_it(validate: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        wanted = {chance.randrange(128) for _ in range(chance.randrange(9))}
        done = subprocess.run(
            [validate, "list"], input=cpu_list(wanted).encode(), capture_output=True, check=True
        )
        assert list(map(int, done.stdout.split())) == sorted(wanted)


@pytest.mark.parametrize("text", ["128", "3-1", "1,", ",1", "-1", "a", "1-", "1 ", "0-128", "0x1"])
def test_what_is_no_list_is_refused(validate: Path, text: str) -> None:
    done = subprocess.run([validate, "list"], input=text.encode(), capture_output=True, check=True)
    assert done.stdout == b"Invalid argument\n"


def test_a_slot_is_whole_after_every_step_and_every_flipped_bit_is_seen(
    validate: Path, tmp_path: Path
) -> None:
    check(validate, "table", tmp_path / "journal")


@pytest.mark.parametrize("seed", [1, 2])
def test_the_index_agrees_with_a_plain_list(validate: Path, seed: int) -> None:
    check(validate, "index", seed)


def test_limits_that_nobody_asked_for_are_set_where_they_are_free(
    validate: Path, tmp_path: Path
) -> None:
    check(validate, "limits", tmp_path)


def test_a_new_watchdog_decides_what_the_last_left(validate: Path) -> None:
    check(validate, "take-up")


def test_an_instant_that_lies_ahead_was_no_time_ago(validate: Path) -> None:
    check(validate, "clock")


def test_the_watchdog_decides_as_written(validate: Path) -> None:
    check(validate, "lease")
