# SPDX-License-Identifier: Apache-2.0
"""A real cluster is broken by the verb, and the judge finds nothing wrong with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from product_node import STOKER

from stoker.native.errors import Denied
from stoker.tui.chaos import faults
from stoker.tui.commands.chaos_commands import chaos_command


def test_faults_are_listed_and_chosen_by_their_names() -> None:
    listed = CliRunner().invoke(chaos_command, ["--list", "--kind", "flaps", "--kind", "agent"])
    assert listed.output.splitlines() == [
        kind.name for kind in faults.KINDS if "flaps" in kind.name or "agent" in kind.name
    ]
    wrong = CliRunner().invoke(chaos_command, ["--kind", "meteor"])
    assert wrong.exit_code == 2 and "--list shows them" in wrong.output


def test_whoever_is_not_root_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["stoker", "chaos"])
    told = CliRunner().invoke(chaos_command, [])
    assert isinstance(told.exception, Denied)
    assert told.exception.hint == "run it as root: sudo stoker chaos"


@pytest.mark.soak
@pytest.mark.needs_root
@pytest.mark.slow
@pytest.mark.parametrize(
    ("minutes", "kinds"),
    [
        ("2", []),
        ("0.5", ["--kind", "disk of a follower"]),
        ("1", ["--kind", "damaged"]),
        ("1", ["--kind", "loses", "--kind", "is slow"]),
    ],
)
def test_no_job_is_lost_and_nothing_runs_twice(minutes: str, kinds: list[str]) -> None:
    """A server whose disk was full or has damaged files comes back, too."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    before = {path.name for path in Path("/run/netns").glob("*")}
    done = subprocess.run(
        [STOKER, "chaos", "--minutes", minutes, *kinds, "--json"],
        capture_output=True, cwd="/", timeout=900, check=False, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    found = json.loads(done.stdout)
    assert found["violations"] == found["failures"] == []
    assert found["faults"] == len(found["rounds"]) == done.stderr.count(" decides ") > 0
    assert found["attempts"] >= found["accepted"] > 0
    assert {path.name for path in Path("/run/netns").glob("*")} == before
