# SPDX-License-Identifier: Apache-2.0
"""Three parts of the suite (`make test`): tests that need a core each, or the machine, and others.

BPF programs and traced jobs measure themselves by the clock: on a crowded machine a governed tracer
has less to go by. Their tests have the mark `machine` and run two at a time. Several nodes and
schedulers whose leases and ranks are judged in time load both cores: these tests have the mark
`alone` and run one by one.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.rounds import rounds

# A property holds or not, however long an example takes on a machine with other work.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# pytest-xdist says 80 to its workers, and then a table that goes into a pipe is cut as well.
os.environ.pop("COLUMNS", None)

HERE = Path(__file__).parent
ASYNC_S = 290.0
"""The time that a test in a loop has, a little less than pytest's `timeout`."""
MACHINE = (
    "probes",
    "agent/tracing/test_job_governor_sites.py",
    "agent/tracing/test_job_calls_node.py",
    "agent/link/test_lease.py",
    "agent/jobs/test_spawner.py",
    "agent/jobs/test_spawner_deaths.py",
    "agent/tracing/test_trace_thread.py",
    "product/test_accounting.py",
    "product/test_collectives.py",
    "product/test_cuda.py",
    "product/test_launches.py",
    "product/test_nccl.py",
    "product/test_power.py",
    "product/test_python_waits.py",
    "product/test_switching.py",
    "product/test_throttled.py",
    "product/test_tracing.py",
    "product/test_windows.py",
)
"""Folders and files below tests/ whose tests trace jobs, load programs into the kernel or kill what
runs jobs at a chosen moment."""
ALONE = ("product/test_gang_ranks.py", "product/test_outages.py", "product/test_servers.py")
"""Those that judge whether leases were renewed or ranks named in time, on several nodes."""


BESIDE = (
    "probes/simdriver",
    "probes/adhoc/test_adhoc_source.py",
    "probes/bench/test_bench_probes.py",
    "probes/calls/test_call_records.py",
    "probes/calls/test_call_windows.py",
    "probes/host/test_cgroups.py",
    "probes/calls/test_library_copies.py",
    "probes/doctor/test_cupti_doctor.py",
    "probes/test_cupti_parts.py",
    "probes/calls/test_elf.py",
    "probes/kernels/test_tracer_environment.py",
    "probes/test_tracer_plan.py",
    "probes/cost/test_cost_governor.py",
    "probes/otlp/test_otlp_encoder.py",
    "probes/calls/test_prologue.py",
    "probes/kernels/test_record_batches.py",
    "probes/doctor/test_site_doctor.py",
    "probes/calls/test_site_report.py",
    "probes/calls/test_probe_sites.py",
    "probes/kernels/test_job_trace.py",
    "probes/kernels/test_job_trace_hostile.py",
    "probes/kernels/test_job_trace_timeline.py",
)
"""Those that neither load the machine nor measure time: they read files, texts or counters."""
LONG = (
    "native/core/test_core_digests.py",
    "product/test_bad_input.py",
    "agent/test_up.py",
    "native/sim/test_walk.py",
    "product/test_health.py",
    "agent/test_daemon.py",
    "native/core/test_core_fuzz.py",
    "tui/test_live.py",
    "tui/bench/test_callgrind.py",
    "product/test_devices.py",
    "native/trace/test_check.py",
    "product",
    "mesh/server/test_scheduler_daemon.py",
    "native/core",
    "agent/commands/test_node_commands.py",
    "test_examples.py",
    "test_imports.py",
)
"""Modules that wait for processes or compile, the longest first. The other modules, which only
compute, run between them, so that neither kind has all workers at once."""
KEPT_BACK = 6
"""One of so many of the others runs at the end, when a worker may be left with a long one."""
OTHERS = "not machine and not alone"
PARTS = ("machine", "alone", OTHERS)
"""Arguments of `-m`; each part of the suite is run by its own."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of the other part are not even imported."""
    wanted = config.option.markexpr
    if wanted not in PARTS or collection_path.suffix != ".py":
        return None
    return True if _part(collection_path) != wanted else None


def pytest_configure(config: pytest.Config) -> None:
    """Workers take modules in the order they have here, not by how many tests they have."""
    config.option.loadscopereorder = False
    config.pluginmanager.register(_Failures(config))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage meanwhile, nor ever in what was collected: it lives as long as the run,
    and each look takes longer the more of it there is."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not rounds(0, 1):
        slow = [item for item in items if item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
    for item in items:
        if (part := _part(item.path)) != OTHERS:
            item.add_marker(part)
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.obj = _bounded(item.obj)
    if config.option.markexpr == OTHERS:
        places = _mixed(list(dict.fromkeys(item.path for item in items)))
        items.sort(key=lambda item: places[item.path])


def _bounded(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Return the test with a bound of its own: what pytest-timeout raises in a signal handler is
    lost where a callback of the loop runs just then, and the test would hang for ever."""

    @functools.wraps(test)
    async def bounded(*arguments: Any, **named: Any) -> None:
        async with asyncio.timeout(ASYNC_S):
            await test(*arguments, **named)

    return bounded


@pytest.fixture(scope="module")
def public_folder() -> Iterator[Path]:
    """A folder that jobs of every user can read, enter and write."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-jobs-", dir="/tmp"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


class _Failures:
    """Prints a failure when it happens, so that a run that is cut off has told it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write_line(f"\nFAILED {report.nodeid} in {report.when}")
            terminal.write_line(report.longreprtext)


def _mixed(modules: list[Path]) -> dict[Path, float]:
    """Return the place of each module: the others are spread evenly between those of LONG."""
    long = sorted((path for path in modules if _place(path) < len(LONG)), key=_place)
    others = [path for path in modules if _place(path) == len(LONG)]
    places = {path: float(place) for place, path in enumerate(long)}
    spread = len(others) - len(others) // KEPT_BACK
    for number, path in enumerate(others):
        places[path] = number * len(long) / spread if number < spread else len(long) + number
    return places


@cache
def _place(path: Path) -> int:
    """Return the place of a module in LONG, or its length for the others."""
    if not path.is_relative_to(HERE):
        return len(LONG)
    inside = map(path.relative_to(HERE).is_relative_to, LONG)
    return next((place for place, found in enumerate(inside) if found), len(LONG))


@cache
def _part(path: Path) -> str:
    """Return the part that a file belongs to."""
    if not path.is_relative_to(HERE):
        return OTHERS
    inside = path.relative_to(HERE).is_relative_to
    if any(map(inside, ALONE)):
        return "alone"
    return "machine" if any(map(inside, MACHINE)) and not any(map(inside, BESIDE)) else OTHERS
