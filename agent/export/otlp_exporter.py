# SPDX-License-Identifier: Apache-2.0
"""The exporter, which pushes metrics to an OTLP collector if config.toml or the environment names
one.

The final values of a job are pushed soon after its end, without waiting for the interval. They stay
in a queue of FINALS_MAX until a collector has taken them; values beyond it are counted as lost.

One worker thread encodes and sends, so that a slow or missing collector delays nothing else.
Retries are bounded; lost points are counted, and the next push reports them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from stoker.agent.export.node_metrics import Deltas, JobReading, NodeReading, metrics
from stoker.agent.export.otlp_sender import sender
from stoker.agent.state.otlp_config import OtlpConfig, target
from stoker.native.structured_log import structlog
from stoker.probes.kernels.job_trace import TimedLaunch
from stoker.probes.otlp import metric_names, otlp_encoder
from stoker.probes.otlp.otlp_encoder import Metric
from stoker.scheduler.nouns import TaskKey

TRIES = 3
PAUSE_S = (0.5, 5.0)
"""Seconds before the second try, doubled each time, and the longest wait, Retry-After included."""
FINALS_MAX = 256
"""The largest number of ended jobs whose final values wait; past it the oldest is lost."""
FINALS_A_PUSH = 32
"""The largest number of ended jobs in one push, which keeps below the limit of series."""
FINALS_GAP_S = 1.0
"""Seconds between two pushes for ended jobs."""

_log = structlog.get_logger("exporter")


class OtlpExporter:
    """The exporter. `read` returns the node's readings and runs in the daemon's loop."""

    def __init__(
        self,
        config: OtlpConfig,
        resource: Mapping[str, otlp_encoder.Value],
        read: Callable[[], Awaitable[NodeReading]],
        version: str,
    ) -> None:
        self._config, self._resource, self._read = config, resource, read
        self._url = target(config)
        self._sender = sender(config)
        self._scope = (metric_names.SCOPE, version)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="otlp")
        self._deltas = Deltas(otlp_encoder.DELTAS[config.temporality])
        self._refused: Counter[str] = Counter()
        self._stopped = False
        self._finals: deque[JobReading] = deque()
        self._push_now = asyncio.Event()
        self._exemplars: dict[tuple[TaskKey, str], TimedLaunch] = {}
        """The exemplars of the last push that was taken: a launch is told once."""
        self.counters: Counter[str] = Counter(otlp_jobs_lost=0)

    async def run(self) -> None:
        """Push at each interval and soon after a job's end; a slow push delays only the next
        one."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            taken = await self.once()
            if taken and self._finals:
                self._push_now.set()
            rest_s = max(0.0, began + self._config.interval_s - loop.time())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._push_now.wait(), rest_s)
            least_s = min(FINALS_GAP_S, self._config.interval_s)
            await asyncio.sleep(max(0.0, began + least_s - loop.time()))

    def ended(self, reading: JobReading) -> None:
        """Queue the final values of a job; called in the daemon's loop."""
        if len(self._finals) >= FINALS_MAX:
            self._finals.popleft()
            self.counters["otlp_jobs_lost"] += 1
        self._finals.append(reading)
        self._push_now.set()

    async def once(self) -> bool:
        """Read, encode and push now; True if the collector took the metrics."""
        found = await self._read()
        self._push_now.clear()
        finals = tuple(self._finals)[:FINALS_A_PUSH]
        over = {job.key for job in self._finals}
        running = (job for job in found.jobs if job.key not in over)
        rule = found.exemplars
        reading = replace(
            found,
            exemplars=rule and replace(rule, told=self._exemplars),
            jobs=(*finals, *running),
            failed=self.counters["otlp_points_lost"],
            refused=dict(self._refused),
        )
        loop = asyncio.get_running_loop()
        taken = await loop.run_in_executor(self._worker, self._export, reading)
        if taken:
            self._exemplars = {
                (job.key, kernel): launch
                for job in reading.jobs
                for kernel, launch in job.slowest.items()
            }
            sent = {id(job) for job in finals}
            self._finals = deque(job for job in self._finals if id(job) not in sent)
        return taken

    def close(self) -> None:
        """Stop pushing; a push in progress ends by its own limits."""
        self._stopped = True
        self._worker.shutdown(wait=False, cancel_futures=True)
        self._sender.close()

    # --- in the worker ----------------------------------------------------------------------------

    def _export(self, reading: NodeReading) -> bool:
        found, refused = metrics(reading)
        self._refused += refused
        self.counters["otlp_points_refused"] += refused.total()
        time_ns = time.time_ns()
        delta = self._config.temporality != "cumulative"
        sent = self._deltas.since(found) if delta else found
        body = otlp_encoder.request(
            self._resource, self._scope, sent, time_ns, self._config.temporality
        )
        taken = self._push(body)
        self._count(found, taken)
        if taken and delta:
            self._deltas.taken(found, time_ns)
        return taken

    def _count(self, found: list[Metric], taken: bool) -> None:
        points = sum(len(metric.points) for metric in found)
        self.counters["otlp_pushed" if taken else "otlp_push_failed"] += 1
        self.counters["otlp_points" if taken else "otlp_points_lost"] += points

    def _push(self, body: bytes) -> bool:
        """Push, and retry while the collector's answer allows it."""
        pause = PAUSE_S[0]
        for last in range(TRIES - 1, -1, -1):
            tried = self._sender.send(body)
            if not tried.why:
                return True
            if not tried.retry or not last or self._stopped:
                _log.warning("metrics were not taken", collector=self._url.netloc, why=tried.why)
                return False
            time.sleep(min(max(pause, tried.after_s), PAUSE_S[1]))
            pause *= 2
        return False
