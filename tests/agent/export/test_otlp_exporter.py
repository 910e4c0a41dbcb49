# SPDX-License-Identifier: Apache-2.0
"""Metrics over HTTP to the test's own collector: taken, refused, retried, lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes.collector import Collector
from fakes.one_node import OneNode

from stoker.agent.export import otlp_exporter
from stoker.agent.export.node_metrics import ExemplarRule, JobReading, NodeReading
from stoker.agent.export.otlp_exporter import OtlpExporter
from stoker.agent.jobs.attempt_folders import folder_name
from stoker.agent.state.otlp_config import OtlpConfig, target
from stoker.native import _trace, paths
from stoker.native.errors import BadRequest
from stoker.probes.kernels.job_trace import KernelSummary, TimedLaunch, TimeWindow, TraceSummary
from stoker.probes.otlp import trace_identity
from stoker.scheduler.nouns import DeviceShare, JobSpec, TaskKey


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setattr(otlp_exporter, "PAUSE_S", (0.01, 0.02))
    made = Collector()
    yield made
    made.close()


async def read() -> NodeReading:
    return NodeReading(1, (), (), (), {"connect_failed": 3})


def exporter_to(url: str, **fields: Any) -> OtlpExporter:
    return OtlpExporter(OtlpConfig(url, **fields), {"host.name": "n"}, read, "0.1")


def values(message: Any) -> dict[str, int]:
    (resource,) = message.resource_metrics
    metrics = resource.scope_metrics[0].metrics
    return {each.name: each.sum.data_points[0].as_int for each in metrics}


@pytest.mark.parametrize("compression", ["gzip", "none"])
async def test_a_push_arrives(collector: Collector, compression: Any) -> None:
    made = exporter_to(collector.url, compression=compression, headers={"X-TaskKey": "k"})
    assert await made.once()
    assert values(collector.taken[0])["stoker.agent.events"] == 3
    ((path, headers),) = collector.headers
    assert path == "/v1/metrics" and headers["X-TaskKey"] == "k"
    assert headers["Content-Type"] == "application/x-protobuf"
    made.close()


async def test_what_may_pass_is_tried_again_and_what_may_not_is_not(collector: Collector) -> None:
    made = exporter_to(collector.url)
    collector.answers = [503, 429]
    assert await made.once() and collector.requests == 3
    collector.answers = [400]
    assert not await made.once() and collector.requests == 4
    collector.answers = [301]  # not followed
    assert not await made.once() and collector.requests == 5
    collector.answers = [503] * 3
    assert not await made.once() and collector.requests == 8
    assert made.counters["otlp_push_failed"] == 3
    assert await made.once()
    assert values(collector.taken[-1])["stoker.export.failed"] == made.counters["otlp_points_lost"]
    made.close()


async def test_an_exemplar_is_told_until_a_collector_has_it(collector: Collector) -> None:
    slow = {"k": TimedLaunch(15, 6000)}
    summary = TraceSummary("full", TimeWindow(0, 1), (KernelSummary("k", 1, 15, 15, 15),))
    found = ((1, 15, 15, 15, 0, 0), {125: 1})
    one = JobReading(TaskKey(7, 1, 0), "n", 1, "full", 0, summary, {"k": found}, slow)

    async def read() -> NodeReading:
        return NodeReading(1, (), (), (one,), {}, exemplars=ExemplarRule("c"))

    made = OtlpExporter(OtlpConfig(collector.url), {"host.name": "n"}, read, "0.1")
    collector.answers = [400]
    assert not await made.once() and await made.once() and await made.once()
    assert [len(point.exemplars) for _, point in all_histograms(collector)] == [1, 0]
    made.close()


async def test_a_collector_that_is_gone_costs_points_and_nothing_else(
    collector: Collector,
) -> None:
    made = exporter_to(collector.url)
    collector.server.server_close()
    assert not await made.once()
    assert made.counters["otlp_points_lost"] > 0
    made.close()


async def test_deltas_tell_each_event_once(collector: Collector) -> None:
    made = exporter_to(collector.url, temporality="delta")
    assert await made.once()
    collector.answers = [400]
    assert not await made.once()
    assert await made.once()
    told = [values(message)["stoker.agent.events"] for message in collector.taken]
    assert told == [3, 0]
    made.close()


async def test_with_lowmemory_counters_go_on_and_histograms_tell_what_was_added(
    collector: Collector,
) -> None:
    made = exporter_to(collector.url, temporality="lowmemory")
    assert await made.once() and await made.once()
    told = [values(message)["stoker.agent.events"] for message in collector.taken]
    assert told[0] == told[1] == 3, "a counter that is looked up stays cumulative"
    made.close()


async def test_an_agent_pushes_what_a_job_does(collector: Collector, tmp_path: Path) -> None:
    """A kernel on a device reaches a collector's histogram through all parts between."""
    config = f'[otlp]\nendpoint = "{collector.url}"\ninterval_s = 0.3\n'
    async with OneNode(tmp_path, config) as node:
        await node.scheduler.until(lambda: bool(node.scheduler.reports))
        program = str(paths.program("stoker-demo-opencl"))
        spec = JobSpec((program, "--rounds", "1000000"), gpu_milli=1000, trace="full", name="demo")
        (key,) = await node.scheduler.submit(spec, owner=node.owner, shares=(DeviceShare(0, 1000),))
        await node.scheduler.until(lambda: timed(collector) > 0)
        await node.scheduler.stop(key)
        await node.scheduler.until_ended(key)
        message = collector.taken[-1]
        names = {
            each.key: each.value.string_value
            for each in message.resource_metrics[0].resource.attributes
        }
        assert names["service.name"] == "stoker-agent" and names["host.name"] == "node1"
    found = histograms(collector)
    assert set(found) <= {"smooth", "norm", "saxpy"}
    assert_exemplars(collector, node.scheduler.cluster, key.job)
    for point in found.values():
        assert point.count == sum(point.positive.bucket_counts) + point.zero_count
        assert point.scale == 5 and point.time_unix_nano > point.start_time_unix_nano


def assert_exemplars(collector: Collector, cluster: str, job: int) -> None:
    """Each exemplar is a value of a bucket that counts one, of the attempt, and told once."""
    trace = trace_identity.trace_id(cluster, job)
    span = trace_identity.attempt_span(cluster, job, 1, 0)
    told = []
    for name, point in all_histograms(collector):
        for each in point.exemplars:
            assert (each.trace_id, each.span_id) == (trace, span)
            place = _trace.Histogram.index(int(each.as_double)) - point.positive.offset
            assert point.positive.bucket_counts[place] > 0
            assert point.min <= each.as_double <= point.max
            assert point.start_time_unix_nano < each.time_unix_nano <= point.time_unix_nano
            told.append((name, each.time_unix_nano))
    assert told and len(set(told)) == len(told)


async def ran(node: OneNode, *argv: str) -> tuple[TaskKey, TraceSummary]:
    """Run one traced job to its end and return its record from `job.get`."""
    spec = JobSpec(argv, gpu_milli=1000, trace="full", name="short")
    (key,) = await node.scheduler.submit(spec, owner=node.owner, shares=(DeviceShare(0, 1000),))
    await node.scheduler.until_ended(key)
    stored = node.state.root / "agent" / "jobs" / folder_name(key) / "trace.json"
    return key, msgspec.json.decode(stored.read_bytes(), type=TraceSummary)


def newest(collector: Collector, metric: str) -> dict[tuple[int, str], Any]:
    """Map (job, its last attribute that is a name) to the newest point of that metric."""
    found: dict[tuple[int, str], Any] = {}
    for message in list(collector.taken):
        for each in message.resource_metrics[0].scope_metrics[0].metrics:
            for point in each.sum.data_points if each.name == metric else ():
                at = {each.key: each.value for each in point.attributes}
                name = at["stoker.kernel.name"].string_value
                found[at["stoker.job.id"].int_value, name] = point
    return found


async def test_the_final_values_of_a_job_are_pushed_at_its_end(
    collector: Collector, tmp_path: Path
) -> None:
    """Final values of two jobs, the first of which ends long before the next interval."""
    config = f'[otlp]\nendpoint = "{collector.url}"\ninterval_s = 3600\n'
    program = str(paths.program("stoker-demo-opencl"))
    async with OneNode(tmp_path, config) as node:
        await node.scheduler.until(lambda: bool(node.scheduler.reports))
        for rounds in ("3", "40"):
            key, summary = await ran(node, program, "--rounds", rounds)
            said = {(key[0], row.name): row.count for row in summary.kernels}
            assert said and all(said.values())

            def told(said: dict[tuple[int, str], int] = said) -> bool:
                return said.keys() <= newest(collector, "stoker.job.kernel.launches").keys()

            await node.scheduler.until(told)
            points = newest(collector, "stoker.job.kernel.launches")
            assert {at: points[at].as_int for at in said} == said
            attributes = {
                each.key: each.value for at in said for each in points[at].attributes
            }  # fmt: skip
            assert attributes["stoker.job.user"].string_value == node.owner.user
            assert attributes["stoker.job.queue"].string_value == "default"
            assert attributes["stoker.lower_bound"].bool_value is False


def final(number: int) -> JobReading:
    return JobReading(
        TaskKey(number, 1, 0), "n", 1, "full", 0, TraceSummary("full", TimeWindow(0, 1))
    )


async def test_final_values_wait_for_a_collector_and_are_bounded(collector: Collector) -> None:
    made = exporter_to(collector.url)
    for number in range(otlp_exporter.FINALS_MAX + 3):
        made.ended(final(number))
    assert made.counters["otlp_jobs_lost"] == 3
    collector.answers = [400]
    assert not await made.once()
    while len(jobs := jobs_of(collector)) < otlp_exporter.FINALS_MAX:
        assert await made.once()
    assert jobs == set(range(3, otlp_exporter.FINALS_MAX + 3))
    told = len(collector.taken)
    assert await made.once()
    assert told == otlp_exporter.FINALS_MAX // otlp_exporter.FINALS_A_PUSH
    assert jobs_of_one(collector.taken[-1]) == set(), "told once"
    made.close()


def jobs_of(collector: Collector) -> set[int]:
    return {job for message in collector.taken for job in jobs_of_one(message)}


def jobs_of_one(message: Any) -> set[int]:
    return {
        attribute.value.int_value
        for metric in message.resource_metrics[0].scope_metrics[0].metrics
        for point in metric.sum.data_points
        for attribute in point.attributes
        if attribute.key == "stoker.job.id"
    }


def timed(collector: Collector) -> int:
    """Return launches in the newest points; a kernel may have one before any launch was timed."""
    return sum(point.count for point in histograms(collector).values())


def histograms(collector: Collector) -> dict[str, Any]:
    """Map each kernel to its newest histogram point."""
    return dict(all_histograms(collector))


def all_histograms(collector: Collector) -> Iterator[tuple[str, Any]]:
    """Yield each kernel with each of its histogram points, the oldest first."""
    for message in collector.taken:
        for metric in message.resource_metrics[0].scope_metrics[0].metrics:
            for point in metric.exponential_histogram.data_points:
                at = {each.key: each.value.string_value for each in point.attributes}
                yield at["stoker.kernel.name"], point


@pytest.mark.parametrize(
    "fields",
    [
        {"endpoint": "localhost:4318"},
        {"endpoint": "ftp://x"},
        {"endpoint": "http://x/?a=b"},
        {"endpoint": "http://x", "interval_s": 0.0},
        {"endpoint": "http://x", "headers": {str(i): "" for i in range(17)}},
        {"endpoint": "http://x", "headers": {"a b": "c"}},
        {"endpoint": "http://x", "headers": {"token": "s3cr3t\r\nhost: y"}},
    ],
)
def test_a_place_that_is_none_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="otlp") as refused:
        target(OtlpConfig(**fields))
    assert "s3cr3t" not in str(refused.value)


def test_a_path_of_the_collectors_own_is_kept() -> None:
    assert target(OtlpConfig("https://c:1/api/otlp/v1/metrics")).path == "/api/otlp/v1/metrics"
