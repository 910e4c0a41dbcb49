# SPDX-License-Identifier: Apache-2.0
"""The cost of telling metrics: `python -m stoker.agent.export.bench`, which `bench export` runs.

One load is a node with 8 cards and the jobs whose kernels are told, once in an interval of the
export. The other is a number of series in one pass. Each is measured as an export and as a page,
beside OpenTelemetry's SDK and prometheus_client with the same series in the same run. Times are CPU
times of this thread, the best of several blocks that alternate; a peer that is not installed is
None with a reason. A pass has other values than the one before it, as in an agent.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import importlib.util
import inspect
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from stoker.agent.devices.fields import TABLE, complete, reading
from stoker.agent.devices.readings import CardReadings, Fields
from stoker.agent.export import metrics_page
from stoker.agent.export.metrics_page import EVERYBODY, PageSource
from stoker.agent.export.node_metrics import (
    KERNELS_MAX,
    Buckets,
    ExemplarRule,
    JobReading,
    NodeReading,
    metrics,
)
from stoker.agent.jobs.start_records import StartRecord
from stoker.probes.kernels.job_trace import (
    Causes,
    CostRow,
    DeviceRow,
    KernelSummary,
    RecordCounts,
    TimedLaunch,
    TimeWindow,
    TraceSummary,
)
from stoker.probes.otlp import otlp_encoder, prometheus_text
from stoker.probes.otlp.otlp_encoder import Metric, Number
from stoker.scheduler.nouns import DeviceInfo, DeviceSample, TaskKey

CARDS, KERNELS, SERIES = 8, 200, 5000
INTERVAL_S = 10.0
TARGET_SHARE, TARGET_S = 0.002, 0.1
RESOURCE: dict[str, otlp_encoder.Value] = {"host.name": "node1", "service.name": "stoker-agent"}
SCOPE = ("stoker.agent", "bench")
_SPREAD = 160
"""The used buckets of one histogram: five octaves."""

Pass = Callable[[int], object]
"""One pass with the values of a number."""


def node(number: int, kernels: int = KERNELS) -> NodeReading:
    """Return the reading of a busy node; `number` changes its values."""
    names = [f"GPU-{card:08x}-0000-0000-0000-000000000000" for card in range(CARDS)]
    infos = tuple(DeviceInfo(id, "nvidia", "NVIDIA H200", memory_bytes=1 << 37) for id in names)
    samples = tuple(DeviceSample(id, 0.5, 600.0 + number, 55.0) for id in names)
    jobs = [
        _job(job, min(KERNELS_MAX, kernels - job * KERNELS_MAX), number)
        for job in range(-(-kernels // KERNELS_MAX))
    ]
    starts = tuple(
        StartRecord(job, 1, 0, 0, 0, 1000, 5.0, gpu_milli=1000, devices=(id,), user="alice")
        for job, id in enumerate(names)
    )
    counters = {f"counter_{i}": number for i in range(80)}
    cards = tuple(_card(id, number) for id in names)
    rule = ExemplarRule("bench")
    return NodeReading(
        1, infos, samples, tuple(jobs), counters, cards=cards, starts=starts, exemplars=rule
    )


def _card(id: str, number: int) -> CardReadings:
    """Return a card with a number in every numeric field."""
    fields: Fields = {spec.name: reading(spec.name, number, 1) for spec in TABLE if spec.unit}
    fields["throttle"] = reading("throttle", ["power limit"], 1)
    links = [{"up": True, "tx_bytes": number, "rx_bytes": number, "errors": 0}] * 18
    fields["links"] = reading("links", links, 1)
    return CardReadings(id, 1, complete(fields, "not read"))


def _job(job: int, kernels: int, number: int) -> JobReading:
    names = [f"void cutlass::Kernel<float, {job}, {place}>(Params)" for place in range(kernels)]
    rows = tuple(KernelSummary(name, number, number * 1000, 5, 9) for name in names)
    summary = TraceSummary(
        "governed",
        TimeWindow(0, 1000),
        rows,
        (),
        (DeviceRow("GPU-1", 1000, Causes(kernel_ns=number)),),
        {"ring_full": 7},
        None,
        CostRow(10, 20, 2.0, 0.008),
        records=RecordCounts(number, number, 0),
    )
    buckets = {index: index * number % 500 for index in range(320, 320 + _SPREAD)}
    totals = (sum(buckets.values()), number * 10_000, 5, 9000, 0, 0)
    histograms: dict[str, Buckets] = {name: (totals, dict(buckets)) for name in names}
    key = TaskKey(job + 1, 1, 0)
    slowest = dict.fromkeys(names, TimedLaunch(9000 + number, number))
    told = (summary, histograms, slowest)
    return JobReading(key, "train", 5000, "governed", 10_000, *told, user="alice", queue="q")


def series(number: int, count: int = SERIES) -> Metric:
    """Return one gauge with many series of six attributes each."""
    points = tuple(
        Number((*_FIXED, ("hw.id", f"GPU-{i:06d}"), ("number", i % 8)), float(i + number))
        for i in range(count)
    )
    return Metric("stoker.bench", "W", "Series of a benchmark", "gauge", points)


_FIXED = (("a", "one"), ("b", "two"), ("c", "three"), ("d", "four"))


def encoded(found: list[Metric], number: int) -> bytes:
    """Return metrics as the exporter sends them."""
    return gzip.compress(otlp_encoder.request(RESOURCE, SCOPE, found, number), compresslevel=1)


def text(found: Metric) -> bytes:
    """Return the page of one metric."""
    families = prometheus_text.families([found])
    return prometheus_text.page(families, "text", len(found.points) + 1, 1 << 30).body


# --- peers --------------------------------------------------------------------------------------


def sdk_pass(count: int) -> Pass:
    """Return the pass of OpenTelemetry's SDK: observations are read, encoded and packed."""
    from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.metrics.view import LastValueAggregation, View
    from opentelemetry.sdk.resources import Resource

    at: list[dict[str, str | int]] = [
        {**dict(_FIXED), "hw.id": f"GPU-{i:06d}", "number": i % 8} for i in range(count)
    ]
    values = [0]
    view = View(instrument_name="*", aggregation=LastValueAggregation(), **_unbounded(View, count))
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], Resource(dict(RESOURCE)), views=[view])

    def observe(options: CallbackOptions) -> Iterator[Observation]:
        for place, each in enumerate(at):
            yield Observation(float(place + values[0]), each)

    provider.get_meter(*SCOPE).create_observable_gauge("stoker.bench", [observe], "W")

    def run(number: int) -> object:
        values[0] = number
        data = reader.get_metrics_data()
        assert data is not None
        found = data.resource_metrics[0].scope_metrics[0].metrics[0].data.data_points
        assert len(found) == count, "the SDK left some out"
        return gzip.compress(encode_metrics(data).SerializeToString(), compresslevel=1)

    return run


def _unbounded(view: Any, count: int) -> dict[str, Any]:
    """Return the option that lets a view have this many series, under the name that it has here."""
    names = [name for name in inspect.signature(view).parameters if "cardinality" in name]
    return dict.fromkeys(names[:1], count + 1)


def client_pass(count: int) -> Pass:
    """Return the pass of prometheus_client: gauges are set, then written."""
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()
    names = [*(name for name, _ in _FIXED), "hw_id", "number"]
    gauge = Gauge("stoker_bench_watts", "Series of a benchmark", names, registry=registry)
    fixed = [value for _, value in _FIXED]
    children = [gauge.labels(*fixed, f"GPU-{i:06d}", i % 8) for i in range(count)]

    def run(number: int) -> object:
        for place, child in enumerate(children):
            child.set(float(place + number))
        return generate_latest(registry)

    return run


def peer(name: str, make: Callable[[int], Pass], count: int) -> Pass | str:
    """Return a peer's pass, or why there is none."""
    if importlib.util.find_spec(name) is None:
        return f"{name} is not installed"
    return make(count)


# --- measuring ----------------------------------------------------------------------------------


def best(passes: dict[str, Pass], rounds: int) -> dict[str, float]:
    """Return the least CPU seconds of one pass of each, with the passes in turn."""
    found = dict.fromkeys(passes, float("inf"))
    for number in range(1, rounds + 1):
        for name, run in passes.items():
            gc.collect()
            begun = time.thread_time()
            run(number)
            found[name] = min(found[name], time.thread_time() - begun)
    return found


def run(rounds: int, count: int) -> dict[str, Any]:
    """Measure everything."""
    source = PageSource("node1", RESOURCE)
    found, refused = metrics(node(1))
    told = sum(len(metric.points) for metric in found)
    page = metrics_page.page(source, node(1), EVERYBODY, "openmetrics")
    assert not refused and not page.refused
    readings = [node(number) for number in range(rounds + 1)]
    many = [series(number, count) for number in range(rounds + 1)]
    peers = {
        "sdk": peer("opentelemetry.sdk", sdk_pass, count),
        "client": peer("prometheus_client", client_pass, count),
    }
    passes: dict[str, Pass] = {
        "export": lambda number: encoded(metrics(readings[number])[0], number),
        "page": lambda number: metrics_page.page(
            source, readings[number], EVERYBODY, "openmetrics"
        ),
        "series_export": lambda number: encoded([many[number]], number),
        "series_page": lambda number: text(many[number]),
        **{name: each for name, each in peers.items() if not isinstance(each, str)},
    }
    least = best(passes, rounds)
    return {
        "cards": CARDS,
        "kernels": KERNELS,
        "points": told,
        "page_series": page.series,
        "rounds": rounds,
        "interval_s": INTERVAL_S,
        "export_ms": least["export"] * 1e3,
        "export_share": least["export"] / INTERVAL_S,
        "page_ms": least["page"] * 1e3,
        "page_share": least["page"] / INTERVAL_S,
        "share_target": TARGET_SHARE,
        "series": count,
        "series_export_ms": least["series_export"] * 1e3,
        "series_page_ms": least["series_page"] * 1e3,
        "series_target_ms": TARGET_S * 1e3,
        **_against("sdk", least, "series_export"),
        **_against("client", least, "series_page"),
        "why_not": {name: why for name, why in peers.items() if isinstance(why, str)},
    }


def _against(name: str, least: dict[str, float], ours: str) -> dict[str, Any]:
    """Return a peer's time and how many times ours fits into it; None where it is not there."""
    theirs = least.get(name)
    return {
        f"{name}_ms": theirs * 1e3 if theirs is not None else None,
        f"{name}_ratio": theirs / least[ours] if theirs is not None else None,
    }


def lines(found: dict[str, Any]) -> str:
    """Return the result for people."""
    made = [
        f"{found['cards']} cards and {found['kernels']} kernels: {found['points']} points,"
        f" {found['page_series']} series of the page",
        f"export  {found['export_ms']:8.1f} ms  {found['export_share']:8.3%} of a core every"
        f" {found['interval_s']:g} s (target {found['share_target']:.1%})",
        f"page    {found['page_ms']:8.1f} ms  {found['page_share']:8.3%}",
        f"{found['series']} series in one pass (target {found['series_target_ms']:g} ms):",
    ]
    for name, title, ours in (
        ("sdk", "OpenTelemetry SDK", "series_export"),
        ("client", "prometheus_client", "series_page"),
    ):
        theirs = found[f"{name}_ms"]
        beside = (
            f"{title} {theirs:.1f} ms, {found[f'{name}_ratio']:.1f} times as much"
            if theirs is not None
            else found["why_not"][name]
        )
        made.append(f"{ours.partition('_')[2]:<7} {found[f'{ours}_ms']:8.1f} ms  {beside}")
    return "\n".join(made) + "\n"


def main() -> None:
    """Print the result as lines or as JSON."""
    parser = argparse.ArgumentParser(prog="stoker-bench-export", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--series", type=int, default=SERIES)
    parser.add_argument("--json", action="store_true")
    option = parser.parse_args()
    found = run(option.rounds, option.series)
    print(json.dumps({"schema": "stoker/v1", **found}) if option.json else lines(found), end="")


if __name__ == "__main__":
    main()
