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
    def prepare(node: LiveNode) -> None:
        node.root.mkdir(mode=0o700)
        text = f'[otlp]\nendpoint = "{collector.url}"\ninterval_s = 0.5\n'
        (node.root / "config.toml").write_text(text)

    with live_node(prepare=prepare) as live:
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
    assert node.jobs() == [waits, held]
    for job in (waits, held):
        node.stoker("cancel", str(job))
