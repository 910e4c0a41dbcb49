# SPDX-License-Identifier: Apache-2.0
"""The node-local bus of a live node: every launch of a traced job is heard, by whom it is due."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from product_node import STOKER, LiveNode, live_node, wait_until

from stoker.agent.bus.local_bus import RECORDS, socket_path
from stoker.probes.kernels import record_batches
from stoker.probes.simdriver import libraries, profiles

pytestmark = pytest.mark.needs_root

EXAMPLE = Path(__file__).parents[2] / "examples" / "local_bus.py"
LAUNCHES = 997
KERNELS = f"""
import os, sys, time, pyopencl as cl
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
source = "__kernel void add(__global float *x) {{ x[get_global_id(0)] += 1; }}"
kernel = cl.Kernel(cl.Program(context, source).build(), "add")
x = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096)
def launch():
    kernel(queue, (1024,), None, x)
    queue.finish()
launch()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
for _ in range({LAUNCHES}):
    launch()
"""


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    """Root's jobs run as root here: the interpreter may lie where nobody else can read it."""
    with live_node("--root-jobs-as", "root") as live:
        wait_until(
            lambda: bool(live.ask(lambda client: client.devices()).devices), "a device is found"
        )
        yield live


@pytest.fixture
def context() -> Iterator[Any]:
    made: Any = zmq.Context()
    yield made
    made.destroy(0)


def test_every_launch_is_heard_once(node: LiveNode, context: Any, public_folder: Path) -> None:
    heard = context.socket(zmq.SUB)
    heard.setsockopt(zmq.RCVTIMEO, 60_000)
    heard.setsockopt(zmq.SUBSCRIBE, RECORDS)
    heard.connect(f"ipc://{socket_path(node.state.run, os.geteuid())}")
    go = public_folder / "go"
    words = (str(STOKER.parent / "python"), "-c", KERNELS, str(go))
    job = node.submit(*words, gpu_milli=1000, trace="full")
    topic, data, _ = heard.recv_multipart()  # the first message: from now on all is heard
    view = node.ask(lambda client: client.get(job))
    assert view.decision is not None
    assert topic == f"stoker.v1.records.{view.user}.{view.decision.node}.{job}".encode()
    go.touch()
    kernels: Counter[str] = Counter()
    following = None
    envelope, _ = record_batches.decode(data)
    while envelope.what != "end":
        envelope, records = record_batches.decode(heard.recv_multipart()[1])
        assert (envelope.job, envelope.window, envelope.dropped) == (job, 0, 0)
        if envelope.what == "events":
            assert following in (None, envelope.first)
            following = envelope.first + envelope.count
            rows = records[records["kind"] == 16]
            kernels.update(envelope.names[row] for row in rows["name"])
    assert kernels["add"] >= LAUNCHES
    assert node.wait(job).state == "succeeded"


def test_the_example_reads_devices_at_full_rate(tmp_path_factory: pytest.TempPathFactory) -> None:
    """SIM: a card whose driver is read ten times a second."""
    folder = tmp_path_factory.mktemp("sim") / "node"
    sim = profiles.node("4xL40S", folder, seed=11)
    sim.set_open(True)
    with live_node(device_kind="gpu", **libraries.environment(folder, [1], {})) as node:
        wait_until(
            lambda: len(node.ask(lambda client: client.devices()).devices) >= 4, "four cards"
        )
        words = [STOKER.parent / "python", EXAMPLE, str(node.state.run), "devices", "40"]
        done = subprocess.run(words, capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        lines = [line.split() for line in done.stdout.decode().splitlines()]
        assert {line[1] for line in lines} == {"SIM"}
        power = [line for line in lines if line[2] == "power_w"]
        assert len({line[0] for line in power}) == 4
        assert any(int(line[5].strip("(")) > 1 for line in power)
        assert done.stderr.startswith(
            b"0 records missing, by the agent: {'missed': 0, 'dropped': 0}"
        )
