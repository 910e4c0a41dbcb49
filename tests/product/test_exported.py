# SPDX-License-Identifier: Apache-2.0
"""The metrics of a live node reach a collector: those of the agent, and of the scheduler beside
it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fakes.collector import Collector
from product_node import LiveNode, live_node, wait_until

pytestmark = pytest.mark.needs_root


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def node(collector: Collector) -> Iterator[LiveNode]:
    """The node gets the collector from the environment of `stoker up`."""
    with live_node(
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_METRIC_EXPORT_INTERVAL="500",
        OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test%20bed",
        OTEL_METRICS_EXEMPLAR_FILTER="always_on",
        OTEL_PROPAGATORS="b3",
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
