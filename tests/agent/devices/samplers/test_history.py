# SPDX-License-Identifier: Apache-2.0
"""The ring of a field's newest points."""

from __future__ import annotations

from stoker.agent.devices.samplers.history import POINTS, History


def test_a_history_keeps_the_newest_points() -> None:
    history = History()
    for i in range(POINTS + 5):
        history.add(i + 1, float(i))
    points = history.points()
    assert len(points) == POINTS
    assert (points[0], points[-1]) == ((6, 5.0), (POINTS + 5, POINTS + 4.0))
    assert history.points(since_ns=POINTS + 3) == points[-2:]
