# SPDX-License-Identifier: Apache-2.0
"""The simulated process of a scheduler: its deaths in the middle of a step."""

from __future__ import annotations

from stoker.mesh.replica import events
from tests.agent.sim.stage import Stage


def test_one_that_dies_before_it_stores_an_entry_has_not_applied_it() -> None:
    """It is alone in its roster, so it counts the entry in the step whose first effect stores it.
    Nobody was told, and the log, whose leader was deposed, lost the entry."""
    stage = Stage(1, spares=2, grows=True)
    only = stage.ready()
    stage.pass_time(3)
    stage.depose_log_server(only)
    append = only._effects[events.Append]

    def append_and_die(effect: events.Append) -> None:
        append(effect)
        only.dies_in = 0

    only._effects[events.Append] = append_and_die
    stage.submit("lost", again=False)
    stage.until(lambda: not only.alive, "its death")
    only._effects[events.Append] = append
    stage.restore_log_server(only)
    only.start()
    stage.submit("after")
    stage.until(lambda: stage.end("after"), "a job after that")
    stage.pass_time(3)
    assert stage.violations == []
