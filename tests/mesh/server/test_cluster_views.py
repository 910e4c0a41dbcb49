# SPDX-License-Identifier: Apache-2.0
"""Lists of a large cluster come in pages that fit into a message, each row once and in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.replica import events
from stoker.mesh.server import cluster_views
from stoker.mesh.wire import schema
from stoker.scheduler.core import Limits
from stoker.scheduler.nouns import DeviceInfo, NodeReport
from tests.mesh.bench import Bench

NODES, CARDS = 1000, 8
NAMES = [f"node-{number:04}.cluster.example" for number in range(NODES)]


def report(name: str) -> NodeReport:
    cards = tuple(
        DeviceInfo(f"GPU-{name}-{place}", "nvidia", "NVIDIA H200", driver="550.54.15")
        for place in range(CARDS)
    )
    return NodeReport(name, "boot", 1, 192_000, 1 << 41, cards)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    limits = Limits(nodes=NODES, devices=NODES * CARDS)
    made = Bench(identity.create(tmp_path_factory.mktemp("k") / "s"), limits=limits).lead()
    made.feed(*(events.NodeReported(("hello", name), report(name)) for name in NAMES))
    assert not [reply for reply in made.replies.values() if isinstance(reply, Exception)]
    return made


def pages(list_: Callable[[str], Any]) -> list[Any]:
    found = [list_("")]
    while found[-1].next is not None:
        found.append(list_(found[-1].next))
    return found


def test_every_node_is_on_one_page_that_fits(bench: Bench) -> None:
    found = pages(lambda after: cluster_views.node_list(bench.replica, bench.now, after))
    assert [row.node for page in found for row in page.nodes] == NAMES
    assert max(len(page.nodes) for page in found) == cluster_views.NODES_AT_ONCE
    assert max(len(schema.encode(page)) for page in found) <= schema.REPLY_BYTES_MAX


def test_every_device_is_on_one_page_that_fits_with_the_others_of_its_node(bench: Bench) -> None:
    found = pages(lambda after: cluster_views.device_list(bench.replica, None, after))
    rows = [(row.node, row.index) for page in found for row in page.devices]
    assert rows == [(name, place) for name in NAMES for place in range(CARDS)]
    assert max(len(schema.encode(page)) for page in found) <= schema.REPLY_BYTES_MAX
    assert all(page.devices[-1].index == CARDS - 1 for page in found)


def test_a_page_after_the_last_node_is_empty(bench: Bench) -> None:
    assert cluster_views.device_list(bench.replica, None, "zzz") == schema.DeviceList(devices=())
