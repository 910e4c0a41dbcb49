# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that run jobs under a real spawner (`spawned.py`), which needs root."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from spawned import Node, job_program_built, running


@pytest.fixture(scope="module")
def job_program() -> Iterator[str]:
    """The path of the compiled test job."""
    with job_program_built() as path:
        yield path


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    """A spawner with a state folder of its own, which ends with the test."""
    async with running() as node:
        yield node
