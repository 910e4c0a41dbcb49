# SPDX-License-Identifier: Apache-2.0
"""A fake node, whose answers the test sets, for the tests of the verbs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_PATH = Path(__file__).parents[1] / "fakes" / "node.py"


@pytest.fixture
def fakes() -> Any:
    """The module of the fake node."""
    spec = importlib.util.spec_from_file_location("stoker_fakes_node", _PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def node(tmp_path: Path, fakes: Any) -> Iterator[Any]:
    """A running fake node."""
    with fakes.FakeNode(tmp_path) as running:
        yield running
