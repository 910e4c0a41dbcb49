# SPDX-License-Identifier: Apache-2.0
"""The verb `waste` against a fake node: a wasteful job, one that is gone, and what is not known."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stoker.main import cli

HOUR_NS = 3_600_000_000_000


@pytest.fixture
def run(node: Any, fakes: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command line; job 1 wastes an hour, 2 is gone, 3 has no device, 4 ended today."""
    for name, value in node.environment.items():
        monkeypatch.setenv(name, value)

    def view(job: int, state: str = "running", milli: int = 1000) -> dict[str, Any]:
        made: dict[str, Any] = fakes.job_view(job, state)
        made["spec"]["gpu_milli"] = milli
        made["times"]["ended_ns"] = time.time_ns() if state == "succeeded" else None
        return made

    def listed(asked: dict[str, Any]) -> dict[str, Any]:
        rows = [view(4, "succeeded"), view(3, milli=0), view(2), view(1)]
        states = asked.get("states") or ["running", "succeeded"]
        return {"jobs": [row for row in rows if row["state"] in states]}

    def got(asked: dict[str, Any]) -> dict[str, Any]:
        if asked["job"] == 2:
            gone: dict[str, Any] = fakes.failure("not_found", "there is no job 2")
            return gone
        causes = {"held_idle_ns": HOUR_NS, "kernel_ns": HOUR_NS // 2}
        device = {"id": "gpu-0", "window_ns": HOUR_NS * 3 // 2, "causes": causes}
        row = view(asked["job"], "succeeded" if asked["job"] == 4 else "running")
        return row | {"trace": {"devices": [device], "kernels": []}}

    node.answers |= {"job.list": listed, "job.get": got}

    def call(*argv: str) -> Result:
        return CliRunner().invoke(cli, ("waste", *argv))

    return call


def test_a_job_that_is_gone_does_not_hide_the_others(run: Any) -> None:
    done = run("-o", "json")
    assert done.exit_code == 0, done.output
    one, two = json.loads(done.stdout)["jobs"]
    assert (one["job"], one["idle_ns"], one["command"]) == (1, HOUR_NS, "stoker cancel 1")
    assert (two["job"], two["idle_ns"], two["absent"]) == (2, None, "there is no job 2")


def test_ended_jobs_are_added_for_a_time(run: Any) -> None:
    assert sorted(run("--since", "1h", "-o", "name").stdout.split()) == ["1", "2", "4"]
    (user,) = json.loads(run("--since", "1h", "--by-user", "-o", "json").stdout)["users"]
    assert (user["jobs"], user["idle_ns"], user["unknown"]) == (3, 2 * HOUR_NS, 1)


def test_a_person_is_told_of_what_is_not_known(run: Any) -> None:
    done = run()
    assert "the device time of 1 job is not known" in done.stderr
    assert "1.00 h" in done.stdout and "67 %" in done.stdout and "there is no job 2" in done.stdout


def test_nothing_held_is_said_in_words(run: Any, node: Any) -> None:
    node.answers["job.list"] = lambda asked: {"jobs": []}
    assert run().stdout == "no job holds a device\n"
    assert run("--since", "1h").stdout == "no job holds a device, nor did one in that time\n"
    assert json.loads(run("-o", "json").stdout)["jobs"] == []
