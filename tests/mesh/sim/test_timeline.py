# SPDX-License-Identifier: Apache-2.0
"""Events happen by time, and equal times in the order in which they were added."""

from __future__ import annotations

from stoker.mesh.sim.timeline import Timeline


def test_events_happen_by_time_and_then_by_order() -> None:
    timeline, seen = Timeline(), list[str]()
    timeline.at(20, seen.append, "late")
    timeline.at(10, seen.append, "first")
    timeline.at(10, seen.append, "second")
    timeline.run(15)
    assert (seen, timeline.now, len(timeline)) == (["first", "second"], 15, 1)
    timeline.run(20)
    assert seen == ["first", "second", "late"]
    assert timeline.delivered == 3


def test_what_is_past_happens_now_and_time_never_goes_back() -> None:
    timeline, seen = Timeline(), list[int]()

    def note(_: None) -> None:
        seen.append(timeline.now)

    def plan(_: None) -> None:
        timeline.at(3, note, None)
        timeline.after(5, note, None)

    timeline.at(10, plan, None)
    timeline.run(100)
    assert seen == [10, 15]
