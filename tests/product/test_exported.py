# SPDX-License-Identifier: Apache-2.0
"""Metrics, traces and events of a live node reach a collector: those of the agent, of the scheduler
beside it, and of ended jobs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from fakes.collector import Collector
from product_node import LiveNode, live_node, wait_until

from stoker.agent.supervise import pids
from stoker.native import paths

pytestmark = pytest.mark.needs_root


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


@pytest.fixture(scope="module")
def node(collector: Collector) -> Iterator[LiveNode]:
    """The node gets the collector from the environment of `stoker up`."""
    with live_node(
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_METRIC_EXPORT_INTERVAL="500",
        OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test%20bed",
        OTEL_METRICS_EXEMPLAR_FILTER="always_on",
        OTEL_PROPAGATORS="b3",
        OTEL_LOGS_EXPORTER="otlp",
    ) as live:
        yield live


def values(collector: Collector, metric: str) -> dict[str, float]:
    """Return the newest value of each series of a metric, by its first attribute."""
    found: dict[str, float] = {}
    for message in collector.taken:
        (resource,) = message.resource_metrics
        for each in resource.scope_metrics[0].metrics:
            if each.name == metric:
                for point in getattr(each, each.WhichOneof("data")).data_points:
                    key = point.attributes[0].value.string_value if point.attributes else ""
                    found[key] = point.as_int or point.as_double
    return found


def test_scheduler_log_and_queues_are_exported_beside_the_agent(
    node: LiveNode, collector: Collector
) -> None:
    wait_until(lambda: bool(node.ask(lambda client: client.devices()).devices), "a device")
    held = node.submit("sleep", "600", gpu_milli=1000)
    node.wait(held, "running")
    waits = node.submit("true", gpu_milli=1000)

    def told() -> bool:
        return values(collector, "stoker.queue.pending").get("default") == 1

    wait_until(told, "the figures of the queue", 60)
    assert values(collector, "stoker.queue.live")["default"] == 2
    assert values(collector, "stoker.queue.devices")["default"] == 1
    assert values(collector, "stoker.scheduler.leads") == {"": 1}
    assert values(collector, "stoker.log.index")[""] >= 3
    assert values(collector, "stoker.log.term")[""] >= 1
    assert values(collector, "stoker.cluster.events")["submitted"] == 2
    assert values(collector, "stoker.cluster.objects")["nodes_up"] == 1
    assert values(collector, "stoker.scheduler.events")
    assert values(collector, "stoker.agent.events")
    resource = collector.taken[-1].resource_metrics[0].resource.attributes
    told_of = {each.key: each.value.string_value for each in resource}
    assert told_of["deployment.environment.name"] == "test bed"
    assert told_of["service.name"] == "stoker-agent"
    log = (node.state.log / "agent.log").read_text()
    assert "OTEL_PROPAGATORS is not taken: no context comes with a job" in log
    assert node.jobs() == [waits, held]
    for job in (waits, held):
        node.stoker("cancel", str(job))


def spans_of(collector: Collector, job: int) -> list[Any]:
    """Return the spans that have this job's number."""
    return [
        span
        for span in list(collector.spans)
        if any(each.key == "stoker.job.id" and each.value.int_value == job
               for each in span.attributes)
    ]  # fmt: skip


def exemplars(collector: Collector) -> Iterator[Any]:
    for message in list(collector.taken):
        for metric in message.resource_metrics[0].scope_metrics[0].metrics:
            for point in metric.exponential_histogram.data_points:
                yield from point.exemplars


def test_a_slow_launch_leads_to_the_trace_of_its_job(node: LiveNode, collector: Collector) -> None:
    """The way goes from a kernel on a device, through its exemplar, to the spans of the log."""
    program = str(paths.program("stoker-demo-opencl"))
    job = node.submit(program, "--rounds", "40", gpu_milli=1000, trace="full")
    node.wait(job)
    wait_until(lambda: len(spans_of(collector, job)) >= 6, "its spans", 60)
    spans = spans_of(collector, job)
    assert sorted(span.name for span in spans) == [
        "attempt", "decision", "job", "pending", "run", "start",
    ]  # fmt: skip
    by_name = {span.name: span for span in spans}
    told = node.ask(lambda client: client.get(job)).times
    whole = by_name["job"]
    assert (whole.start_time_unix_nano, whole.end_time_unix_nano) == (
        told.submitted_ns,
        told.ended_ns,
    )
    assert by_name["run"].start_time_unix_nano == told.started_ns
    assert by_name["run"].parent_span_id == by_name["attempt"].span_id
    assert by_name["attempt"].parent_span_id == whole.span_id and not whole.parent_span_id
    assert by_name["attempt"].links[0].span_id == by_name["decision"].span_id

    def leading() -> list[Any]:
        return [each for each in exemplars(collector) if each.trace_id == whole.trace_id]

    wait_until(lambda: bool(leading()), "an exemplar", 30)
    run = by_name["run"]
    for each in leading():
        assert each.span_id == by_name["attempt"].span_id
        assert run.start_time_unix_nano < each.time_unix_nano < run.end_time_unix_nano
        assert 0 < each.as_double < run.end_time_unix_nano - run.start_time_unix_nano


def events_of(collector: Collector, key: str, value: str | int) -> list[Any]:
    """Return the log records that have this attribute."""
    return [
        record
        for record in list(collector.logs)
        if any(each.key == key and value in (each.value.int_value, each.value.string_value)
               for each in record.attributes)
    ]  # fmt: skip


def test_events_are_log_records_in_the_trace_of_their_job(
    node: LiveNode, collector: Collector
) -> None:
    job = node.submit("sh", "-c", "exit 3")
    node.wait(job)
    wait_until(lambda: len(spans_of(collector, job)) >= 6, "its spans", 60)
    row = node.ask(lambda client: client.devices()).devices[0]
    device = row.id
    node.stoker("cordon", f"{row.node}:{device}", "--reason", "fan")
    node.stoker("uncordon", f"{row.node}:{device}")

    def uncordoned() -> bool:
        names = {record.event_name for record in events_of(collector, "hw.id", device)}
        return "stoker.device.uncordoned" in names

    wait_until(uncordoned, "the last event", 60)
    told = {record.event_name: record for record in events_of(collector, "stoker.job.id", job)}
    assert {"stoker.job.submitted", "stoker.job.failed"} <= set(told)
    failed = told["stoker.job.failed"]
    whole = next(span for span in spans_of(collector, job) if span.name == "job")
    assert (failed.trace_id, failed.span_id) == (whole.trace_id, whole.span_id)
    assert failed.severity_text == "WARN" and failed.body.string_value.startswith(f"job {job} of ")
    cordoned = [
        record
        for record in events_of(collector, "hw.id", device)
        if record.event_name == "stoker.device.cordoned"
    ]
    assert len(cordoned) == 1 and cordoned[0].body.string_value.endswith(": fan")
    uids = [
        each.value.string_value
        for record in list(collector.logs)
        for each in record.attributes
        if each.key == "log.record.uid"
    ]
    assert len(set(uids)) == len(collector.logs), "each event was sent once"


def test_the_spans_of_a_retried_job_are_linked_and_survive_the_agent(
    node: LiveNode, collector: Collector
) -> None:
    """The agent is killed while the job runs; the next one tells the end from the log."""
    job = node.submit("sh", "-c", "sleep 1; exit 3", retries=1)
    node.wait(job, "running")
    os.kill(pids.find(node.state)["agent"].pid, signal.SIGKILL)
    node.wait(job)
    wait_until(lambda: len(spans_of(collector, job)) >= 11, "its spans", 90)
    attempts = [span for span in spans_of(collector, job) if span.name == "attempt"]
    first, second = sorted(attempts, key=lambda span: span.start_time_unix_nano)
    assert first.span_id in {link.span_id for link in second.links}
    assert first.status.code == second.status.code == 2
    assert {each.key: each.value.int_value for each in first.attributes}["process.exit.code"] == 3
