# SPDX-License-Identifier: Apache-2.0
"""The reason in every list, on a live node: from what a job does to what `jobs` says of it.

The verdicts go from the job's trace through the node's observation and the scheduler's list to the
table, the JSON and the live view.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from product_node import LiveNode, live_node, wait_until

pytestmark = pytest.mark.needs_root

SOURCE = Path(__file__).with_name("starved.c")
LIMIT_NS = 3600 * 10**9
GRACE_NS = 5 * 10**9
"""The time that a job has between the request to end and its kill, where it asked for none."""
SOON_S = 60.0
"""A verdict covers up to 20 s, so one that has changed shows within about as many."""


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    with live_node() as live:
        wait_until(
            lambda: bool(live.ask(lambda client: client.devices()).devices), "a device is found"
        )
        yield live


@pytest.fixture(scope="module")
def program(public_folder: Path) -> str:
    made = public_folder / "starved"
    subprocess.run(["cc", "-O1", "-o", made, SOURCE, "-lOpenCL"], check=True)
    return str(made)


def row(node: LiveNode, job: int) -> dict[str, Any]:
    """The row of a job in the list, as JSON."""
    rows = json.loads(node.stoker("jobs", "-o", "json").stdout)["jobs"]
    return next(each for each in rows if each["job"] == job)


def wait_for_verdict(node: LiveNode, job: int, name: str) -> dict[str, Any]:
    """The verdict on a job, as soon as it is this one."""
    told: list[Any] = []

    def found() -> bool:
        told.append(row(node, job))
        verdict = told[-1]["verdict"]
        return verdict is not None and verdict["bottleneck"] == name

    wait_until(found, f"job {job} is {name}", SOON_S)
    verdict: dict[str, Any] = told[-1]["verdict"]
    return verdict


def test_a_job_that_becomes_starved_of_cpu_says_so_where_people_look(
    node: LiveNode, program: str, public_folder: Path
) -> None:
    flag = public_folder / "now"
    job = node.submit(program, str(flag), gpu_milli=1000)
    before = wait_for_verdict(node, job, "blocked")
    assert before["text"].startswith("blocked ") and before["tasks"] == 1
    flag.touch()
    verdict = wait_for_verdict(node, job, "starved of CPU")
    assert 0 < verdict["share"] <= 1 and verdict["window_ns"] >= 1_000_000_000
    assert verdict["text"] == f"starved of CPU {verdict['share'] * 100:.0f} %"
    for words in (("jobs",), ("top", "--once")):
        shown = node.stoker(*words).stdout.decode()
        line = next(line for line in shown.splitlines() if line.split()[:1] == [str(job)])
        assert "starved of CPU" in line, shown
    node.stoker("cancel", str(job))
    node.wait(job)
    assert (row(node, job)["verdict"], row(node, job)["verdict_absent"]) == (None, "")


def test_an_idle_job_and_one_that_waits_for_it_have_their_reasons_in_one_list(
    node: LiveNode,
) -> None:
    idle = node.submit("/bin/sleep", "600", gpu_milli=1000, time_limit_s=LIMIT_NS / 1e9)
    waits = node.submit("/bin/true", gpu_milli=1000)
    plain = node.submit("/bin/sleep", "600")
    verdict = wait_for_verdict(node, idle, "idle")
    assert verdict["text"] == "idle 100 %"
    found = row(node, waits)
    assert found["waits"] and found["verdict"] is None
    assert row(node, plain)["verdict_absent"] == "it holds no device"
    shown = node.stoker("jobs").stdout.decode()
    lines = {words[0]: line for line in shown.splitlines() if (words := line.split())}
    assert "idle 100 %" in lines[str(idle)]
    assert found["waits"][:20] in lines[str(waits)]
    assert lines[str(plain)].rstrip().endswith("-")
    explained = node.explained(waits)
    assert "expected start: at the latest in " in explained, explained
    expected = json.loads(node.stoker("explain", str(waits), "-o", "json").stdout)["expected"]
    ends_ns = row(node, idle)["times"]["started_ns"] + LIMIT_NS
    assert (expected["latest"], abs(expected["t_ns"] - ends_ns) <= GRACE_NS) == (True, True)
    node.stoker("cancel", f"{idle},{waits},{plain}")


def test_the_end_of_a_run_says_what_bounded_it(node: LiveNode) -> None:
    done = node.stoker("run", "--gpus", "1", "--device-kind", "cpu", "--", "sleep", "11")
    assert "idle for 100 % of its device time (more: stoker explain" in done.stderr.decode()
