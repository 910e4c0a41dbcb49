# SPDX-License-Identifier: Apache-2.0
"""Points of devices leave once each, in order, without what is old."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from stoker.agent.bus.device_points import NS, DevicePoints, Points
from stoker.agent.devices.fields import FAST
from stoker.agent.devices.samplers.history import History


class Card:
    """A card whose only field with points is `power_w`."""

    def __init__(self) -> None:
        self.power = History()

    def points(self, name: str, since_ns: int = 0, most: int = 600) -> list[tuple[int, float]]:
        return self.power.points(since_ns, most) if name == "power_w" else []


def test_each_point_is_told_once() -> None:
    card = Card()
    assert "power_w" in FAST

    def cards() -> Iterator[tuple[str, bool, Points]]:
        yield "GPU-1", True, card

    points = DevicePoints("n", cards)
    now_ns = time.time_ns()
    card.power.add(now_ns - 5 * NS, 1.0)
    card.power.add(now_ns - NS // 10, 2.0)
    ((topic, data),) = points()
    assert topic == "device.GPU-1"
    assert json.loads(data) == {
        "node": "n",
        "device": "GPU-1",
        "sim": True,
        "points": {"power_w": [[now_ns - NS // 10, 2.0]]},
    }
    assert list(points()) == []
    for step in range(3):
        card.power.add(now_ns + step, 3.0 + step)
    ((_, data),) = points()
    assert [value for _, value in json.loads(data)["points"]["power_w"]] == [3.0, 4.0, 5.0]
