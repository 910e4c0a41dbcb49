# SPDX-License-Identifier: Apache-2.0
"""Pushes metrics to an OTLP collector over HTTP, where config.toml names one; otherwise not there.

The final values of a job are pushed soon after its end, not at the interval's: they wait in a queue
of FINALS_MAX until a collector has taken them, and what that has no room for is counted.

One worker thread encodes and sends, so that a collector that is slow or gone delays nothing else.
Retries are bounded; what reaches no collector is counted and told with the next points that do.
Redirects are not followed.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import ssl
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import structlog

from stoker.agent.export.node_metrics import Deltas, JobReading, NodeReading, metrics
from stoker.agent.state.otlp_config import OtlpConfig, target
from stoker.probes.otlp import metric_names, otlp_encoder
from stoker.probes.otlp.otlp_encoder import Metric

TIMEOUT_S = 5.0
TRIES = 3
PAUSE_S = (0.5, 5.0)
"""Before the second try, doubled each time; longest, also where the collector asks for more."""
FINALS_MAX = 256
"""Ended jobs whose final values wait; beyond, the oldest is given up and counted."""
FINALS_A_PUSH = 32
"""Of them, with one push: more could pass the limit of series."""
FINALS_GAP_S = 1.0
"""Between two pushes that are for ended jobs."""
AGAIN = frozenset({429, 502, 503, 504})
"""What a collector answers when the same again may succeed; by the OTLP specification."""

_log = structlog.get_logger("exporter")


class OtlpExporter:
    """`read` gives the node's readings; it runs in the daemon's loop."""

    def __init__(
        self,
        config: OtlpConfig,
        resource: Mapping[str, otlp_encoder.Value],
        read: Callable[[], Awaitable[NodeReading]],
        version: str,
    ) -> None:
        self._config, self._resource, self._read = config, resource, read
        self._url = target(config)
        self._scope = (metric_names.SCOPE, version)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="otlp")
        self._deltas = Deltas()
        self._refused: Counter[str] = Counter()
        self._stopped = False
        self._finals: deque[JobReading] = deque()
        self._soon = asyncio.Event()
        self.counters: Counter[str] = Counter(otlp_jobs_lost=0)

    async def run(self) -> None:
        """One push each interval, and soon after a job's end; one that takes longer delays the
        next, not the agent."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            taken = await self.once()
            if taken and self._finals:
                self._soon.set()
            rest_s = max(0.0, began + self._config.interval_s - loop.time())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._soon.wait(), rest_s)
            least_s = min(FINALS_GAP_S, self._config.interval_s)
            await asyncio.sleep(max(0.0, began + least_s - loop.time()))

    def ended(self, reading: JobReading) -> None:
        """The final values of a job, in the daemon's loop."""
        if len(self._finals) >= FINALS_MAX:
            self._finals.popleft()
            self.counters["otlp_jobs_lost"] += 1
        self._finals.append(reading)
        self._soon.set()

    async def once(self) -> bool:
        """Read, encode and push now; whether the collector took it."""
        found = await self._read()
        self._soon.clear()
        finals = tuple(self._finals)[:FINALS_A_PUSH]
        over = {(job.job, job.attempt) for job in self._finals}
        running = (job for job in found.jobs if (job.job, job.attempt) not in over)
        reading = replace(
            found,
            jobs=(*finals, *running),
            failed=self.counters["otlp_points_lost"],
            refused=dict(self._refused),
        )
        loop = asyncio.get_running_loop()
        taken = await loop.run_in_executor(self._worker, self._export, reading)
        if taken:
            told = {id(job) for job in finals}
            self._finals = deque(job for job in self._finals if id(job) not in told)
        return taken

    def close(self) -> None:
        """Push no more; a push under way ends by its own limits."""
        self._stopped = True
        self._worker.shutdown(wait=False, cancel_futures=True)

    # --- in the worker ----------------------------------------------------------------------------

    def _export(self, reading: NodeReading) -> bool:
        found, refused = metrics(reading)
        self._refused += refused
        self.counters["otlp_points_refused"] += refused.total()
        time_ns = time.time_ns()
        delta = self._config.temporality == "delta"
        told = self._deltas.since(found) if delta else found
        body = otlp_encoder.request(
            self._resource, self._scope, told, time_ns, self._config.temporality
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
        """Try, and try again while the answer says that it may help."""
        if self._config.compression == "gzip":
            body = gzip.compress(body, compresslevel=1)
        pause = PAUSE_S[0]
        for last in range(TRIES - 1, -1, -1):
            again, asked_s, why = self._try(body)
            if not why:
                return True
            if not again or not last or self._stopped:
                _log.warning("metrics were not taken", collector=self._url.netloc, why=why)
                return False
            time.sleep(min(max(pause, asked_s), PAUSE_S[1]))
            pause *= 2
        return False

    def _try(self, body: bytes) -> tuple[bool, float, str]:
        """(the same again may help, seconds the collector asked to wait, what went wrong or "")."""
        headers = {"Content-Type": "application/x-protobuf", **self._config.headers}
        if self._config.compression == "gzip":
            headers["Content-Encoding"] = "gzip"
        connection = self._connect()
        try:
            connection.request("POST", self._url.path, body, headers)
            answer = connection.getresponse()
            answer.read(4096)
            if 200 <= answer.status < 300:
                return False, 0.0, ""
            after = answer.headers.get("Retry-After", "")
            asked_s = float(after) if after.isdigit() else 0.0
            return answer.status in AGAIN, asked_s, f"it answered {answer.status}"
        except (OSError, http.client.HTTPException) as error:
            return True, 0.0, str(error) or repr(error)
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname, self._url.port
        assert host is not None
        if self._url.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
