# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the whole-product tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from fakes.servers import Servers, founded
from product_node import LiveNode, live_node

from tests.mesh.nats_server import NODES


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    """One node shared by the tests of a module."""
    with live_node() as live:
        yield live


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Servers]:
    """Three nodes that run real jobs, each beside a broker and a scheduler."""
    async with founded(tmp_path, NODES) as made:
        yield made
