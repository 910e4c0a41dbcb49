# SPDX-License-Identifier: Apache-2.0
"""Gangs on one node, from the command line to the processes and back."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from product_node import LiveNode, wait_until

from stoker.mesh.wire import schema

pytestmark = pytest.mark.needs_root

SAYS = 'echo "$RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, node $NODE_RANK"'


def job(node: LiveNode, number: int) -> dict[str, Any]:
    return node.json("job", str(number))


def test_every_rank_knows_itself_and_its_output_is_its_own(node: LiveNode) -> None:
    done = node.stoker("run", "--tasks", "3", "--", "sh", "-c", f"{SAYS}; echo e$RANK >&2")
    lines = [f"{rank}: {rank} of 3, {rank} of 3, node 0" for rank in range(3)]
    assert sorted(done.stdout.decode().splitlines()) == lines
    assert sorted(done.stderr.decode().splitlines()) == ["0: e0", "1: e1", "2: e2"]
    number = node.jobs()[0]
    merged = node.stoker("logs", str(number), "--stdout").stdout.decode()
    assert sorted(merged.splitlines()) == lines
    alone = node.stoker("logs", str(number), "--stdout", "--rank", "2").stdout.decode()
    assert alone == "2 of 3, 2 of 3, node 0\n"
    wrong = node.stoker("logs", str(number), "--rank", "3", check=False)
    assert wrong.returncode != 0 and b"ranks 0 to 2" in wrong.stderr


def test_one_rank_that_dies_ends_the_others_and_is_the_reason(node: LiveNode) -> None:
    script = 'if [ "$RANK" = 1 ]; then exit 7; fi; exec sleep 600'
    done = node.stoker("run", "--tasks", "3", "--", "sh", "-c", script, check=False)
    assert done.returncode == 7
    found = job(node, node.jobs()[0])
    name = found["nodes"][0]
    assert found["reason"] == f"rank 1 on node {name}: exit code 7"
    assert [rank["state"] for rank in found["ranks"]] == ["cancelled", "failed", "cancelled"]
    shown = node.stoker("job", str(found["job"])).stdout.decode()
    assert "gang       3 ranks on" in shown and "failed, exit 7 on" in shown
    explained = node.explained(found["job"])
    assert f"it ran as 3 ranks on node {name}" in explained


def test_a_gang_is_tried_again_as_a_whole_and_meets_at_another_port(
    node: LiveNode, public_folder: Path
) -> None:
    """The rank that kills itself waits until the others have spoken."""
    both = f"[ -e {public_folder}/spoke.0 ] && [ -e {public_folder}/spoke.1 ]"
    script = (
        'echo "$STOKER_ATTEMPT $RANK $MASTER_ADDR:$MASTER_PORT";'
        f"touch {public_folder}/spoke.$RANK; until {both}; do sleep 0.05; done;"
        'if [ "$STOKER_ATTEMPT" = 2 ]; then exit 0; fi;'
        'if [ "$RANK" = 2 ]; then kill -9 $$; fi; sleep 600'
    )
    number = node.submit("sh", "-c", script, tasks=3, retries=1)
    assert node.wait(number).state == "succeeded"
    found = job(node, number)
    (first,) = found["attempts"]
    assert first["reason"] == f"rank 2 on node {first['node']}: ended by signal 9"
    ports = []
    for attempt in ("1", "2"):
        logs = node.stoker("logs", str(number), "--attempt", attempt).stdout.decode()
        lines = sorted(logs.splitlines())
        assert [line.split()[:3] for line in lines] == [
            [f"{rank}:", attempt, str(rank)] for rank in range(3)
        ]
        (port,) = {line.split()[3] for line in lines}
        ports.append(port)
    assert ports[0] != ports[1] and all(port.startswith("127.0.0.1:6") for port in ports)


def test_two_gangs_of_a_node_meet_at_different_ports_at_a_time(node: LiveNode) -> None:
    jobs = [node.submit("sleep", "600", tasks=2) for _ in range(3)]
    views = [node.wait(each, "running") for each in jobs]
    assert len({view.master for view in views}) == 3
    node.stoker("cancel", f"{jobs[0]}-{jobs[-1]}")
    for each in jobs:
        ended = node.wait(each)
        assert (ended.state, ended.master) == ("cancelled", "")
        assert {rank.state for rank in ended.ranks} == {"cancelled"}


def test_a_time_limit_of_one_rank_ends_the_gang(node: LiveNode) -> None:
    view = node.run("sleep", "600", tasks=2, time_limit_s=1.0)
    assert view.state == "timeout" and view.reason.startswith("rank ")
    assert "time limit 1 s reached" in view.reason


def test_input_goes_to_rank_0(node: LiveNode) -> None:
    done = node.stoker("run", "--tasks", "2", "-i", "cat", stdin=b"hello\n", check=False)
    assert done.stdout == b"0: hello\n"


def test_a_rank_that_cannot_start_leaves_nothing_of_the_others(
    node: LiveNode, public_folder: Path
) -> None:
    """The program is missing: all ranks were ready, and each of them says what is wrong."""
    view = node.run(str(public_folder / "nowhere"), tasks=3)
    assert view.state == "failed" and "cannot start" in view.reason
    assert view.reason.startswith("rank ")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--tasks", "65"], b"64"),
        (["--tasks", "5", "--nodes", "2"], b"5 tasks cannot be divided that way: 2 nodes, 2 each"),
        (["--nodes", "2"], b"asks for 2 tasks at once, the nodes can hold 1"),
        (["--tasks", "3", "--cpus", "4096"], b"asks for 4096 CPUs, the largest node has"),
    ],
)
def test_a_gang_that_can_never_fit_is_refused(
    node: LiveNode, flags: list[str], says: bytes
) -> None:
    before = node.jobs()
    done = node.stoker("submit", *flags, "true", check=False)
    assert done.returncode != 0 and says in done.stderr
    assert node.jobs() == before


def test_jobs_go_on_while_agent_and_spawner_die(node: LiveNode, public_folder: Path) -> None:
    go = public_folder / "go"
    script = f'while [ ! -e {go} ]; do sleep 0.05; done; echo "$RANK"'
    number = node.submit("sh", "-c", script, tasks=3)
    node.wait(number, "running")
    for process in ("agent", "spawner"):
        node.wait_for_new(process, node.kill(process))
    go.touch()
    assert node.wait(number).state == "succeeded"
    logs = node.stoker("logs", str(number)).stdout.decode()
    assert sorted(logs.split()) == ["0", "0:", "1", "1:", "2", "2:"]


def test_the_agent_dies_while_a_gang_is_made_ready(node: LiveNode) -> None:
    """The shims wait for their release, and a new agent hears of both."""
    pid = json.loads(node.state.pids.read_text())["processes"]["agent"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        number = node.submit("sh", "-c", "echo $RANK", tasks=4)
        wait_until(
            lambda: node.ask(lambda client: client.get(number)).state == "starting", "it is placed"
        )
    finally:
        os.kill(pid, signal.SIGKILL)
    node.wait_for_new("agent", pid)
    view: schema.JobView = node.wait(number)
    assert (view.state, view.attempt) == ("succeeded", 1)
