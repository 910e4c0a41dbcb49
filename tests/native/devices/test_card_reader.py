# SPDX-License-Identifier: Apache-2.0
"""The thread in C that reads a card: its period, its history, and its wakeups."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from fakes.cards import device_program

NOT_READ = -1


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return device_program.program("card_reader.c", tmp_path_factory.mktemp("reader"))


def test_a_reader_keeps_numbers_samples_and_the_power_by_energy(reader: Path) -> None:
    found = device_program.said(reader, "keep")
    assert found["points"] == "5 50 1"
    assert found["power"] == "100 1000000"
    assert found["unread"] == str(NOT_READ)
    assert found["samples"] == "1", "each sample is kept once, and with its own time"
    assert found["refused"] == "3 0", "a round without a value has no point"


def test_slow_fields_have_their_rounds_and_a_card_is_looked_at_anew(reader: Path) -> None:
    assert device_program.said(reader, "pace") == {
        "slow": "1",
        "begun": "3",  # once without success, once again, and once because it was asked for
        "period": str(-errno.EINVAL),
    }


def test_a_level_wakes_in_each_round_and_only_at_it_or_above(reader: Path) -> None:
    found = device_program.said(reader, "levels")
    assert (found["below"], found["at"], found["heard"], found["again"]) == ("0", "1", "1", "0")


def test_changes_of_codes_faults_and_errors_wake_once_each(reader: Path) -> None:
    found = device_program.said(reader, "changes")
    assert found["codes"] == "2"
    assert (found["harmless"], found["fault"], found["errors"]) == ("0", "1", "1")
    assert found["reset"] == "1", "an energy counter that begins anew"


def test_what_is_read_once_a_second_is_news_now_and_then(reader: Path) -> None:
    found = device_program.said(reader, "quiet")
    assert (found["seconds"], found["refused"]) == ("1", str(-errno.EINVAL))
    assert found["nobody"] == "1", "who listens no more is not woken"


def test_a_reader_that_hangs_is_seen_and_left_behind(reader: Path) -> None:
    assert device_program.said(reader, "hang") == {"doing": "read", "copied": "50", "left": "1"}
