# SPDX-License-Identifier: Apache-2.0
"""Metrics from a node's readings: values, bounds, deltas."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from stoker.agent.export.node_metrics import (
    KERNELS_MAX,
    SERIES_MAX,
    Deltas,
    ExemplarRule,
    JobReading,
    NodeReading,
    metrics,
)
from stoker.agent.jobs.start_records import StartRecord
from stoker.probes.kernels.job_trace import (
    Causes,
    ClockAlignment,
    CopyRow,
    CostRow,
    DeviceRow,
    KernelSummary,
    RecordCounts,
    TimedLaunch,
    TimeWindow,
    TraceSummary,
)
from stoker.probes.kernels.trace_summary import Throttle, ThrottleRow
from stoker.probes.otlp import metric_names, trace_identity
from stoker.probes.otlp.otlp_encoder import Histogram, Metric, Number
from stoker.scheduler.nouns import DeviceInfo, DeviceSample, TaskKey

CAUSES = Causes(kernel_ns=600, copy_ns=100, held_idle_ns=250, not_observed_ns=50)


def summary(kernels: int = 2) -> TraceSummary:
    return TraceSummary(
        "governed",
        TimeWindow(0, 1000),
        tuple(KernelSummary(f"k{i}", 10 + i, 100 - i, 5, 9, estimate=True) for i in range(kernels)),
        (CopyRow("read", 3, 30, None, None, 4096),),
        (DeviceRow("GPU-1", 1000, CAUSES),),
        {"ring_full": 7, "late": 0},
        ClockAlignment("CLOCK_MONOTONIC_RAW", 1, 2, 33),
        CostRow(10, 20, 2.0, 0.008),
        records=RecordCounts(100, 93, 7),
    )


def job(number: int = 7, **fields: Any) -> JobReading:
    histogram = ((4, 40, 5, 15, 1, 0), {140: 3})
    found = fields.pop("summary", summary())
    return JobReading(
        TaskKey(number, 1, fields.pop("task", 0)),
        "train",
        5000,
        "governed",
        10_000,
        found,
        {"k0": histogram},
        **fields,
    )


def node(*jobs: JobReading, **fields: Any) -> NodeReading:
    devices = (
        DeviceInfo("GPU-1", "nvidia", "H200", memory_bytes=1 << 37),
        DeviceInfo("GPU-2", "nvidia", "H200", unavailable="held by pid 1", sim=True),
    )
    samples = (
        DeviceSample("GPU-1", 0.5, 300.0, None, {"temperature_c": "no sensor"}),
        DeviceSample("GPU-9", 0.25),
    )
    return NodeReading(1000, devices, samples, jobs, {"publish_dropped": 2}, **fields)


def points(found: list[Metric], name: str) -> dict[tuple[Any, ...], Any]:
    """Map the last attribute's value, or all values, to the value of each point of a metric."""
    (metric,) = [metric for metric in found if metric.name == name]
    return {tuple(value for _, value in point.attributes): point for point in metric.points}


def test_devices_have_what_is_known_of_them_and_nothing_else() -> None:
    found, refused = metrics(node())
    assert not refused
    busy = points(found, "hw.gpu.utilization")
    assert busy["GPU-1", "H200", "gpu", "nvidia"].value == 0.5
    assert busy["GPU-9",].value == 0.25
    assert [point.value for point in points(found, "hw.power").values()] == [300.0]
    assert "hw.temperature" not in [metric.name for metric in found]
    status = points(found, "hw.status")
    assert status["GPU-2", "H200 SIM", "gpu", "nvidia", "failed"].value == 1
    assert status["GPU-1", "H200", "gpu", "nvidia", "failed"].value == 0


def test_an_attempt_that_runs_here_says_for_how_much_of_late_nobody_used_its_devices() -> None:
    start = StartRecord(7, 1, 0, 3, 5, 1000, 5.0, name="train", user="ada")
    over = TaskKey(8, 1, 0, 3)
    found, _ = metrics(node(starts=(start,), idle={start.key: 0.75, over: 1.0}))
    (point,) = points(found, "stoker.job.idle").values()
    assert point.value == 0.75
    assert dict(point.attributes)["stoker.job.id"] == 7
    assert dict(point.attributes)["stoker.job.user"] == "ada"


def test_the_causes_of_a_device_still_add_up() -> None:
    found, _ = metrics(node(job()))
    causes = points(found, "stoker.job.device.time")
    assert sum(point.value for point in causes.values()) == 1000
    assert causes[7, 1, "train", "GPU-1", "kernel", False].value == 600


def test_a_throttled_device_says_by_what() -> None:
    rows = (ThrottleRow("power", 80, 0), ThrottleRow("thermal", 30, 0))
    row = DeviceRow("GPU-1", 1000, CAUSES, throttle=Throttle("counter", 90, 5, rows))
    found, _ = metrics(node(job(summary=msgspec.structs.replace(summary(), devices=(row,)))))
    throttled = points(found, "stoker.job.device.throttled")
    assert {key[-2:]: point.value for key, point in throttled.items()} == {
        ("power", "counter"): 80, ("thermal", "counter"): 30,
    }  # fmt: skip


def test_no_two_tasks_of_a_job_share_a_series() -> None:
    found, _ = metrics(node(job(), job(task=1)))
    assert {key[:4] for key in points(found, "stoker.job.tracing.cost")} == {
        (7, 1, "train"),
        (7, 1, 1, "train"),
    }


def test_tracing_says_its_cost_its_state_and_its_losses() -> None:
    found, _ = metrics(node(job()))
    tracing = points(found, "stoker.job.tracing")
    assert {key[-1]: point.value for key, point in tracing.items()} == {
        "dormant": 0, "governed": 1, "full": 0,
    }  # fmt: skip
    assert points(found, "stoker.job.tracing.cost")[7, 1, "train"].value == 0.008
    assert points(found, "stoker.job.lost")[7, 1, "train", "ring_full"].value == 7
    assert points(found, "stoker.clock.error")[7, 1, "train", "CLOCK_MONOTONIC_RAW"].value == 33


def test_kernels_have_histograms_and_only_the_busiest_are_named() -> None:
    found, _ = metrics(node(job(summary=summary(kernels=40))))
    launches = points(found, "stoker.job.kernel.launches")
    assert [key[-2:] for key in launches] == [(f"k{i}", False) for i in range(KERNELS_MAX)]
    (histogram,) = points(found, "stoker.job.kernel.duration").values()
    assert isinstance(histogram, Histogram)
    assert (histogram.count, histogram.buckets, histogram.zero_count) == (4, {140: 3}, 1)


def test_a_count_that_is_not_whole_is_called_a_lower_bound() -> None:
    whole = summary(kernels=1)
    parts = msgspec.structs.replace(
        whole,
        kernels=(
            msgspec.structs.replace(whole.kernels[0], seen=0.467, estimate=False, error_ns=9),
        ),
        copies=(msgspec.structs.replace(whole.copies[0], seen=0.467),),
    )
    for found, bound in ((metrics(node(job()))[0], False),
                         (metrics(node(job(summary=parts)))[0], True)):  # fmt: skip
        for name in ("kernel.launches", "copies", "copy.io"):
            assert {key[-1] for key in points(found, f"stoker.job.{name}")} == {bound}
        assert {key[-1] for key in points(found, "stoker.job.kernel.time")} == {True}


def test_series_are_bounded_and_what_is_left_out_is_counted() -> None:
    found, refused = metrics(node(*(job(number) for number in range(1, 400))))
    assert sum(len(metric.points) for metric in found) == SERIES_MAX
    assert refused.total() > 0
    assert points(found, "stoker.export.failed")  # the node's own points are never left out
    again, _ = metrics(node(refused=dict(refused), failed=3))
    told = points(again, "stoker.export.refused")
    assert sum(point.value for point in told.values()) == refused.total()


def test_every_metric_is_in_the_mapping_with_its_attributes() -> None:
    found, _ = metrics(node(job(), refused={"m": 1}))
    for metric in found:
        name = metric_names.BY_NAME[metric.name]
        assert (metric.kind, metric.unit) == (name.kind, name.unit)
        for point in metric.points:
            assert {key for key, _ in point.attributes} <= set(name.attributes), metric.name


def series(metrics: list[Metric]) -> dict[Any, Any]:
    return {(metric.name, point.attributes): point for metric in metrics for point in metric.points}


def test_deltas_add_up_to_what_was_measured() -> None:
    """The sum of all taken deltas is the last value, whatever the collector refuses."""
    chance = random.Random(5)
    deltas, taken_count, taken_buckets = Deltas(), 0, 0
    count, bucket, last = 0, 0, 0
    for step in range(1, 60):
        count += chance.randrange(5)
        bucket += chance.randrange(3)
        found = [
            Metric("s", "", "", "sum", (Number((), count, 1),)),
            Metric(
                "h", "", "", "histogram", (Histogram((), 1, bucket, 0.0, 5, 0, 0, {9: bucket}),)
            ),
            Metric("u", "", "", "updown", (Number((), -count, 1),)),
        ]
        told = series(deltas.since(found))
        assert told["u", ()].value == -count
        if chance.random() < 0.6:
            deltas.taken(found, step)
            taken_count += told["s", ()].value
            taken_buckets += told["h", ()].buckets.get(9, 0)
            last = count
            assert (taken_count, taken_buckets) == (count, bucket)
        assert taken_count == last


def test_a_counter_that_started_again_is_exported_as_it_is() -> None:
    deltas = Deltas()
    deltas.taken([Metric("s", "", "", "sum", (Number((), 10, 1),))], 5)
    told = series(deltas.since([Metric("s", "", "", "sum", (Number((), 4, 6),))]))
    assert (told["s", ()].value, told["s", ()].start_ns) == (4, 6)


def test_an_exemplar_leads_to_the_span_of_its_attempt_and_is_told_once() -> None:
    slow = {"k0": TimedLaunch(15, 6000), "k1": TimedLaunch(9, 6000)}
    one = job(7, task=2, slowest=slow)

    def told(reading: JobReading, rule: ExemplarRule | None) -> Any:
        (metric,) = [
            each
            for each in metrics(node(reading, exemplars=rule))[0]
            if each.name == "stoker.job.kernel.duration"
        ]
        return metric.points[0].exemplars

    (found,) = told(one, ExemplarRule("c"))
    assert (found.value, found.time_ns) == (15.0, 6000)
    assert found.trace_id == trace_identity.trace_id("c", 7)
    assert found.span_id == trace_identity.attempt_span("c", 7, 1, 2)
    assert told(one, None) == () == told(one, ExemplarRule("c", 1e-9)), "it has no trace"
    assert told(one, ExemplarRule("c", told={(one.key, "k0"): slow["k0"]})) == ()
    assert told(one, ExemplarRule("c", told={(one.key, "k0"): TimedLaunch(15, 5999)})) == (found,)
