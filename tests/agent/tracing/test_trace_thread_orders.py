# SPDX-License-Identifier: Apache-2.0
"""The orders of the tracing thread: which jobs it hears of, and that it keeps none that is over."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.jobs.spawner_messages import Exited, Started
from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.tracing import ring_return
from stoker.agent.tracing.trace_thread import TraceThread
from stoker.probes.host.host_probes import HostLimits
from stoker.probes.kernels.trace_summary import TraceSummary
from tests.probes.groups import Groups, cgroup2_mount, require_root, rings
from tests.spawned import until

RECORD = StartRecord(7, 1, 0, 0, 0, 0, 5.0, "governed", 1, ("d",))
SPANS_MAPPED = 2 * HostLimits().span_ring_bytes
STARTED = Started(7, 1, 0, 0, 4711, 0, time.time_ns())


@pytest.fixture
async def tracer(tmp_path: Path) -> AsyncIterator[TraceThread]:
    loop = asyncio.get_running_loop()
    for name in ("jobs", "segments"):
        (tmp_path / name).mkdir()
    made = TraceThread(tmp_path / "jobs", tmp_path / "segments", loop.call_soon_threadsafe)
    attached = loop.create_future()
    made.start(None, attached.set_result)
    await attached
    yield made
    made.close()


@pytest.fixture
def groups() -> Iterator[Groups]:
    require_root()
    made = Groups(cgroup2_mount() / f"stoker-test-{os.getpid()}", Path("/bin/true"))
    yield made
    made.close()


async def traced(tracer: TraceThread) -> bool:
    """True if the thread traces a job once it has done all that it was told."""
    await asyncio.sleep(0)
    done = asyncio.get_running_loop().create_future()
    tracer.summaries(done.set_result)
    await done
    return tracer.busy


async def end(tracer: TraceThread) -> Any:
    done = asyncio.get_running_loop().create_future()
    exited = Exited(
        *(7, 1, 0, 0, "exited", 0, None, "", 4711, 0),
        *(STARTED.t_ns, STARTED.t_ns + 1_000_000, None, 0, 0),
    )
    tracer.end(RECORD, exited, done.set_result)
    return await done


async def test_a_job_with_a_device_is_traced_from_its_start_to_its_end(tracer: TraceThread) -> None:
    tracer.begin(RECORD, STARTED)
    assert await traced(tracer)
    assert not tracer.used(RECORD, 1_000_000, cleared=True)
    assert not await traced(tracer)


async def test_a_job_whose_end_comes_with_its_start_is_never_traced(tracer: TraceThread) -> None:
    tracer.begin(RECORD, STARTED)
    assert not tracer.used(RECORD, 1_000_000, cleared=True)
    assert not await traced(tracer)


async def test_a_trace_that_is_settled_at_once_leaves_nothing_traced(
    tracer: TraceThread, tmp_path: Path
) -> None:
    (tmp_path / "segments" / "7").mkdir()
    (tmp_path / "segments" / "7" / "left").touch()
    tracer.begin(RECORD, STARTED)
    assert tracer.used(RECORD, 1_000_000, cleared=False)
    assert isinstance(await end(tracer), TraceSummary)
    assert not await traced(tracer)


@pytest.mark.needs_bpf
async def test_the_ring_of_spans_goes_back_some_time_after_the_last_job(
    groups: Groups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ring_return, "IDLE_S", 0.1)
    loop = asyncio.get_running_loop()
    tracer = TraceThread(tmp_path, tmp_path / "segments", loop.call_soon_threadsafe)
    attached = loop.create_future()
    tracer.start(groups.jobs, attached.set_result)
    await attached
    started = Started(7, 1, 0, 0, 4711, groups.job("7.1").id, time.time_ns())
    for _ in range(2):
        tracer.begin(RECORD, started)
        assert await traced(tracer)
        assert max(rings()) > SPANS_MAPPED
        assert not tracer.used(RECORD, 1_000_000, cleared=True)
        assert not await traced(tracer)
        await until(lambda: max(rings()) < SPANS_MAPPED)
    tracer.close()
