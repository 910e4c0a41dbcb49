# SPDX-License-Identifier: Apache-2.0
"""The examples as a reader would run them, on a node of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from product_node import wait_until

from stoker.agent.state.state_folder import locate
from stoker.mesh.connection import context
from stoker.native import paths
from stoker.tui.demo import private_node

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def node() -> Iterator[private_node.PrivateNode]:
    with private_node.running() as running:
        yield running
    assert running.failures == []


def example(node: private_node.PrivateNode, *command: str) -> subprocess.CompletedProcess[bytes]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=node.work,
        env=os.environ | {"STOKER_STATE": str(node.state), "PATH": path},
        capture_output=True,
        timeout=120,
        check=False,
    )


def address(node: private_node.PrivateNode) -> tuple[str, str, str]:
    found = context.find(str(node.state))
    return found.url, str(found.certificate), str(found.seed_file)


def test_the_first_session(node: private_node.PrivateNode) -> None:
    done = example(node, "sh", str(EXAMPLES / "run.sh"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert lines[:3] == ["hello", "limited", "2"]
    assert "job 4: failed, exit 3" in lines and "later" in lines
    assert "job 4 exited with 3" in lines
    assert any(line.split()[:2] == ["JOB", "NAME"] for line in lines)


def test_submit_with_nothing_but_nats(node: private_node.PrivateNode) -> None:
    script = str(EXAMPLES / "submit_with_nats.py")
    done = example(node, sys.executable, script, *address(node), "echo", "over NATS")
    assert (done.returncode, done.stdout) == (0, b"over NATS\n"), done.stderr
    refused = example(node, sys.executable, script, *address(node), "")
    assert refused.returncode == 1 and refused.stderr.startswith(b"job.submit: ")


def test_submit_with_the_client_of_stoker(node: private_node.PrivateNode) -> None:
    script = str(EXAMPLES / "submit_with_stoker.py")
    done = example(node, sys.executable, script, "sh", "-c", "echo from Python; exit 3")
    assert (done.returncode, done.stdout) == (3, b"from Python\n"), done.stderr
    told = done.stderr.decode().splitlines()
    assert told[0].startswith("job ") and told[-2].endswith(": failed") and "exit" in told[-1]
    refused = example(node, sys.executable, script)
    assert refused.returncode == 1 and b"argv" in refused.stderr


def test_looking_back_on_telemetry(node: private_node.PrivateNode) -> None:
    """Events from before the reader came, and those that follow, are each told once."""
    script = str(EXAMPLES / "look_back.py")
    assert example(node, "stoker", "run", "--", "true").returncode == 0
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    reader = subprocess.Popen(
        [sys.executable, "-u", script, *address(node), "events", "600", "3600"],
        env=os.environ | {"STOKER_STATE": str(node.state), "PATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert reader.stdout is not None
        lines = [reader.stdout.readline()]
        assert example(node, "stoker", "run", "--", "true").returncode == 0
        newest = json.loads(example(node, "stoker", "job", "last", "-o", "json").stdout)["job"]
        ends = {newest - 1: 0, newest: 0}
        while not ends[newest]:
            lines.append(reader.stdout.readline())
            row = json.loads(lines[-1].split(" ", 3)[3])
            if row["what"] == "succeeded" and row["job"] in ends:
                ends[row["job"]] += 1
    finally:
        reader.kill()
        reader.wait()
    assert ends == {newest - 1: 1, newest: 1}
    numbers = [int(line.split()[0]) for line in lines]
    assert numbers == sorted(numbers)
    wrong = example(node, sys.executable, script, *address(node), "gossip", "600", "0")
    assert wrong.returncode == 1 and b"KIND is events" in wrong.stderr


def test_reading_the_local_bus(node: private_node.PrivateNode) -> None:
    run = str(locate(node.state).run)
    script = [sys.executable, str(EXAMPLES / "local_bus.py"), run]
    reader = subprocess.Popen(
        [*script, "kernels", "5"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        program = str(paths.program("stoker-demo-opencl"))
        words = ["--gpus", "0.1", "--device-kind", "cpu", "--trace", "full"]
        begun = example(node, "stoker", "submit", *words, "--", program, "--rounds", "1000000")
        assert begun.returncode == 0, begun.stderr
        out, said = reader.communicate(timeout=100)
        example(node, "stoker", "cancel", "last")
    finally:
        reader.kill()
        reader.wait()
    assert reader.returncode == 0 and said.startswith("0 records missing"), said
    rows = [line.split() for line in out.splitlines()]
    assert rows and all(row[0] == "job" and int(row[3]) > 0 for row in rows)
    wrong = example(node, *script, "gossip", "1")
    assert wrong.returncode == 1 and b"Usage: local_bus.py" in wrong.stderr


@pytest.mark.skipif(shutil.which("nats") is None, reason="the nats command line is not installed")
def test_the_nats_command_line(node: private_node.PrivateNode) -> None:
    done = example(node, "sh", str(EXAMPLES / "nats_req.sh"), *address(node))
    assert done.returncode == 0, done.stderr
    submitted = json.loads(done.stdout.splitlines()[0])
    assert submitted["spec"]["argv"] == ["echo", "hello"]


def test_a_monitor_on_cards_that_are_not_there(tmp_path: Path) -> None:
    """SIM: unmodified pynvml, in virtual time."""
    fault = tmp_path / "lost.toml"
    fault.write_text('[[fault]]\nkind = "lost"\ncard = 2\n')
    options = ["--profile", "4xL40S", "--virtual", "--settle", "30", "--load", "0:0.9,0.5"]
    driver = [sys.executable, "-m", "stoker", "sim", "driver", *options]
    monitor = ["--", sys.executable, str(EXAMPLES / "monitor.py")]
    well, ill = (
        subprocess.run([*driver, *more, *monitor], capture_output=True, text=True, check=False)
        for more in ([], ["--fault", str(fault)])
    )
    lines = well.stdout.splitlines()
    assert (well.returncode, len(lines)) == (0, 4), well.stderr
    assert lines[0].startswith("0  NVIDIA L40S  90 % busy, ") and lines[0].endswith(" C  ok")
    assert lines[3].startswith("3  NVIDIA L40S  0 % busy, ")
    assert ill.returncode == 1 and ill.stdout.splitlines()[2] == "2  -  GPU is lost"


def test_who_chooses_where_a_job_runs(tmp_path: Path) -> None:
    """SIM: a real node on cards that are not there."""
    state, work = Path(tempfile.mkdtemp(prefix="stoker-")), tmp_path
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"STOKER_STATE": str(state), "PATH": path, "TMPDIR": str(work)}
    driver = ["stoker", "sim", "driver", "--profile", "8xH200", "--"]
    with (work / "log").open("wb") as log:
        up = subprocess.Popen(
            [*driver, "stoker", "up", "--foreground"], env=environment, stdout=log, stderr=log
        )
    try:
        devices = ["stoker", "devices", "-o", "json"]
        wait_until(
            lambda: subprocess.run(devices, env=environment, capture_output=True, check=False)
            .stdout.count(b'"kind": "gpu"') == 8, "all cards are there", 60,
        )  # fmt: skip
        done = subprocess.run(
            ["sh", EXAMPLES / "placements.sh"], env=environment, capture_output=True, check=False,
            text=True, timeout=300,
        )  # fmt: skip
    finally:
        subprocess.run(["stoker", "down"], env=environment, capture_output=True, check=False)
        up.terminate()
        up.wait(60)
        shutil.rmtree(state, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "why: devices with numbers that follow each other" in said
    assert "why: the least used node" in said
    assert re.search(r"^cards: GPU-[-0-9a-f]+,GPU-[-0-9a-f]+$", said, re.MULTILINE)
    assert "share link 1: 900 GB/s between each two" in said and "NUMA" in said
    # On a busy machine any function may be too late; then the decision says so.
    assert "scoring function" in said
