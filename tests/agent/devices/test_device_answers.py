# SPDX-License-Identifier: Apache-2.0
"""The answers about devices that the daemon's loop makes itself are those that are quick."""

from __future__ import annotations

import pytest

from stoker.agent.devices import device_answers
from stoker.mesh.wire.queries import DevicesQuery

NOW_NS = 1_795_882_666_000_000_000
S = 1_000_000_000


@pytest.mark.parametrize(
    ("query", "quick"),
    [
        (DevicesQuery("readings", "gpu"), True),
        (DevicesQuery("readings", "gpu", ("power_w",), NOW_NS - 5 * S), True),
        (DevicesQuery("readings", "gpu", ("power_w",), NOW_NS - 11 * S), False),
        (DevicesQuery("readings", "gpu", ("power_w",)), False),
        (DevicesQuery("topology"), False),
    ],
)
def test_only_readings_with_little_history_are_answered_at_once(
    query: DevicesQuery, quick: bool
) -> None:
    assert device_answers.is_quick(query, NOW_NS) == quick
