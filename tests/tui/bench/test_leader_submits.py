# SPDX-License-Identifier: Apache-2.0
"""The submits of the log's bench: who is measured, and which answers count."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stoker.mesh.wire import schema
from stoker.native.errors import Refused, StokerError
from stoker.tui.bench import brokers, leader_submits
from tests.fakes import views

BUSY = """
import time
while time.process_time() < 0.2:
    pass
print(flush=True)
input()
"""


def answer(number: int) -> bytes:
    return schema.encode(views.job(number, "pending"))


def test_each_submit_makes_a_job_of_its_own() -> None:
    leader_submits.check([answer(1), answer(2)], 2)
    with pytest.raises(StokerError, match="2 submits made 1 jobs"):
        leader_submits.check([answer(1), answer(1)], 2)
    with pytest.raises(Refused, match="full"):
        leader_submits.check([answer(1), schema.error_reply(Refused("full"))], 2)


def test_the_cpu_time_is_that_of_the_process() -> None:
    argv = [sys.executable, "-c", BUSY]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert 0.15 < leader_submits.process_cpu_s(process.pid) < 60
        process.kill()
    with pytest.raises(OSError, match="Invalid argument"):
        leader_submits.process_cpu_s(process.pid)


def test_the_cpu_time_is_exact_to_less_than_a_tick() -> None:
    before = time.process_time()
    told = leader_submits.process_cpu_s(os.getpid())
    assert before <= told <= time.process_time()


def test_the_scheduler_ends_with_the_block(tmp_path: Path) -> None:
    with brokers.running(tmp_path, 1) as (broker,):
        with leader_submits.running(broker) as pid:
            os.kill(pid, 0)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
