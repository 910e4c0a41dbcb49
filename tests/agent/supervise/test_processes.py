# SPDX-License-Identifier: Apache-2.0
"""The process tree's decisions, with no process and no clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.agent.supervise.processes import (
    BACKOFF_MAX_S,
    FUTILE_FIRST_S,
    FUTILE_MAX_S,
    HEALTHY_S,
    RESTART_GAP_S,
    SILENT_S,
    Adopted,
    AllReady,
    AllStopped,
    Effect,
    Kill,
    ProcessExited,
    ProcessPhase,
    ProcessSpec,
    ProcessTree,
    Ready,
    RestartRequested,
    StartProcess,
    StopRequested,
    Terminate,
    Tick,
    TreeNote,
    WatchdogBeat,
    backoff_s,
)

NAMES = ("broker", "spawner", "scheduler")


def tree() -> ProcessTree:
    return ProcessTree.of(
        [
            ProcessSpec("broker"),
            ProcessSpec("spawner"),
            ProcessSpec("scheduler", after=("broker", "spawner")),
        ]
    )


def quiet(effects: list[Effect]) -> list[Effect]:
    """Return the effects that are not only for the log."""
    return [effect for effect in effects if not isinstance(effect, TreeNote)]


def all_ready(now_s: float = 0.0) -> ProcessTree:
    t = tree()
    t.step(Tick(), now_s)
    for name in NAMES:
        t.step(Ready(name), now_s)
    return t


def test_a_process_starts_when_all_it_needs_were_ready() -> None:
    t = tree()
    assert t.step(Tick(), 0) == [StartProcess("broker"), StartProcess("spawner")]
    assert t.step(Ready("broker"), 1) == []
    assert t.step(Ready("spawner"), 2) == [StartProcess("scheduler")]
    assert t.step(Ready("scheduler"), 3) == [AllReady()]
    assert t.step(Tick(), 4) == []


def test_ready_is_announced_once() -> None:
    t = all_ready()
    t.step(ProcessExited("broker", "signal 9"), 20)
    t.step(Tick(), 21)
    assert t.step(Ready("broker"), 22) == []


def test_a_node_serves_without_what_is_optional() -> None:
    t = ProcessTree.of([ProcessSpec("broker"), ProcessSpec("serf", optional=True)])
    t.step(Tick(), 0)
    t.step(ProcessExited("serf", "exit code 1"), 1)
    assert AllReady() in t.step(Ready("broker"), 1)
    assert StartProcess("serf") in t.step(Tick(), 10), "it is started again all the same"
    t.step(Ready("serf"), 11)
    assert t.step(StopRequested(), 12) == [Terminate("serf")], "it is stopped like the others"


def test_an_end_while_those_it_needs_are_down_restarts_without_them() -> None:
    t = all_ready()
    t.step(ProcessExited("broker", "signal 9"), 20)
    t.step(ProcessExited("scheduler", "signal 9"), 20)
    assert {StartProcess("broker"), StartProcess("scheduler")} <= set(t.step(Tick(), 21))


def test_backoff_doubles_to_its_limit_and_never_gives_up() -> None:
    t, now, waits = all_ready(), 0.0, []
    for _ in range(12):
        t.step(ProcessExited("broker", "exit code 1"), now)
        due = t.deadline()
        assert due is not None
        waits.append(round(due - now, 6))
        assert StartProcess("broker") not in t.step(Tick(), due - 0.001)
        assert t.step(Tick(), due) == [StartProcess("broker")]
        now = due
    assert waits[:8] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert waits[-1] == BACKOFF_MAX_S
    assert backoff_s(10_000) == BACKOFF_MAX_S


def test_a_process_that_cannot_run_is_told_once_and_started_more_and_more_rarely() -> None:
    t, now, waits, told = all_ready(), 0.0, [], 0
    for _ in range(8):
        told += len(quiet_notes(t.step(ProcessExited("broker", "exit code 3", futile=True), now)))
        assert t.is_futile("broker")
        due = t.deadline()
        assert due is not None
        waits.append(due - now)
        assert t.step(Tick(), due) == [StartProcess("broker")]
        t.step(Ready("broker"), due)
        now = due + HEALTHY_S
    assert (waits, told) == ([2, 4, 8, 16, 32, 60, 60, 60], 1)
    t.step(ProcessExited("broker", "exit code 1"), now)
    assert not t.is_futile("broker")
    t.step(Tick(), now + 1)
    t.step(ProcessExited("broker", "exit code 3", futile=True), now + 2)
    t.step(Tick(), now + 9)
    t.step(Ready("broker"), now + 9)
    later = now + 9 + FUTILE_MAX_S
    assert quiet_notes(t.step(ProcessExited("broker", "exit code 3", futile=True), later))
    assert t.deadline() == later + FUTILE_FIRST_S, "it worked meanwhile"


def quiet_notes(effects: list[Effect]) -> list[Effect]:
    return [each for each in effects if isinstance(each, TreeNote)]


@pytest.mark.parametrize(("up_s", "failures"), [(HEALTHY_S, 1), (HEALTHY_S - 0.1, 3)])
def test_backoff_starts_over_after_healthy_time(up_s: float, failures: int) -> None:
    t = all_ready()
    for at in (0.0, 1.0):
        t.step(ProcessExited("broker", "signal 9"), at)
        t.step(Tick(), at + 0.5)
    t.step(Ready("broker"), 2.0)
    t.step(ProcessExited("broker", "signal 9"), 2.0 + up_s)
    assert t.failures("broker") == failures


def test_running_without_ready_is_not_healthy() -> None:
    t = tree()
    t.step(Tick(), 0)
    t.step(ProcessExited("broker", "exit code 1"), 100)
    t.step(Tick(), 101)
    t.step(ProcessExited("broker", "exit code 1"), 300)
    assert t.failures("broker") == 2


def test_the_failures_of_a_process_are_in_its_note() -> None:
    t = all_ready()
    notes = [
        e for e in t.step(ProcessExited("broker", "exit code 7"), 1) if isinstance(e, TreeNote)
    ]
    assert notes[0].name == "broker"
    assert "exit code 7" in notes[0].text
    assert notes[0].failures == 1


def test_stopping_goes_in_reverse_order_one_at_a_time() -> None:
    t = all_ready()
    assert quiet(t.step(StopRequested(), 1)) == [Terminate("scheduler")]
    assert quiet(t.step(Tick(), 2)) == []
    assert quiet(t.step(ProcessExited("scheduler", "exit code 0"), 2)) == [Terminate("spawner")]
    assert quiet(t.step(ProcessExited("spawner", "exit code 0"), 3)) == [Terminate("broker")]
    assert quiet(t.step(ProcessExited("broker", "exit code 0"), 4)) == [AllStopped()]


def test_a_process_that_does_not_end_is_killed_and_killed_again() -> None:
    t = all_ready()
    t.step(StopRequested(), 1)
    assert quiet(t.step(Tick(), 5.9)) == []
    assert quiet(t.step(Tick(), 6)) == [Kill("scheduler")]
    assert quiet(t.step(Tick(), 11)) == [Kill("scheduler")]


def test_stopping_starts_nothing() -> None:
    t = all_ready()
    t.step(ProcessExited("broker", "signal 9"), 1)
    assert quiet(t.step(StopRequested(), 1)) == [Terminate("scheduler")]
    t.step(ProcessExited("scheduler", "exit code 0"), 2)
    assert quiet(t.step(ProcessExited("spawner", "exit code 0"), 60)) == [AllStopped()]


def test_stopping_before_anything_runs() -> None:
    assert tree().step(StopRequested(), 0) == [AllStopped()]


def test_a_requested_restart_is_no_failure() -> None:
    t = all_ready()
    assert quiet(t.step(RestartRequested("broker", "disk full"), 60)) == [Terminate("broker")]
    assert quiet(t.step(ProcessExited("broker", "exit code 0"), 61)) == [StartProcess("broker")]
    assert t.failures("broker") == 0


def test_a_restart_that_hangs_is_forced() -> None:
    t = all_ready()
    t.step(RestartRequested("broker", "disk full"), 60)
    assert quiet(t.step(Tick(), 65)) == [Kill("broker")]


def test_restarts_are_not_repeated_too_often() -> None:
    t = all_ready(now_s=100)
    assert t.step(RestartRequested("broker", "disk full"), 100 + RESTART_GAP_S - 1) == []


def test_stop_during_a_restart() -> None:
    t = all_ready()
    t.step(RestartRequested("broker", "disk full"), 60)
    assert quiet(t.step(StopRequested(), 60)) == [Terminate("scheduler")]
    assert quiet(t.step(ProcessExited("broker", "exit code 0"), 61)) == []
    assert t.phase("broker") is ProcessPhase.STOPPED


def test_a_process_that_stops_beating_is_started_again() -> None:
    t = all_ready()
    assert t.step(WatchdogBeat("scheduler"), 1) == []
    assert t.step(WatchdogBeat("scheduler"), 20) == []
    assert quiet(t.step(Tick(), 19.9 + SILENT_S)) == []
    assert t.deadline() == 20 + SILENT_S
    assert quiet(t.step(Tick(), 20 + SILENT_S)) == [Terminate("scheduler")]
    assert quiet(t.step(Tick(), 25 + SILENT_S)) == [Kill("scheduler")]
    assert quiet(t.step(ProcessExited("scheduler", "signal 9"), 60)) == [StartProcess("scheduler")]


def test_a_process_that_never_beat_is_not_missed() -> None:
    t = all_ready()
    assert t.deadline() is None
    assert t.step(Tick(), 10_000) == []


def test_adopted_processes_are_not_started() -> None:
    t = tree()
    assert t.step(Adopted(("broker", "scheduler")), 0) == [StartProcess("spawner")]
    assert t.step(Ready("spawner"), 1) == [AllReady()]


def test_a_whole_adopted_tree_is_ready_at_once() -> None:
    assert tree().step(Adopted(NAMES), 0) == [AllReady()]
    assert quiet(tree().step(Adopted(()), 0)) == [StartProcess("broker"), StartProcess("spawner")]


def test_a_spec_out_of_order_is_a_defect() -> None:
    with pytest.raises(AssertionError, match="scheduler"):
        ProcessTree.of([ProcessSpec("scheduler", after=("broker",)), ProcessSpec("broker")])


@given(st.lists(st.sampled_from([*NAMES, "tick", "restart", "stop"]), max_size=60))
def test_whatever_happens_nothing_runs_twice_and_stop_ends(events: list[str]) -> None:
    """Drive the tree with a simulated machine and compare it with the machine's own table."""
    t, now, running = tree(), 0.0, set[str]()

    def carry_out(effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, StartProcess):
                assert effect.name not in running, "started twice"
                assert not t.stopping, "started while stopping"
                running.add(effect.name)

    carry_out(t.step(Tick(), now))
    for event in events:
        now += 0.7
        if event == "stop":
            carry_out(t.step(StopRequested(), now))
        elif event == "restart":
            carry_out(t.step(RestartRequested("broker", "x"), now))
        elif event == "tick":
            for name in sorted(running):
                carry_out(t.step(Ready(name), now))
        elif event in running:
            running.discard(event)
            carry_out(t.step(ProcessExited(event, "signal 9"), now))
    carry_out(t.step(StopRequested(), now))
    last: list[Effect] = t.step(Tick(), now)
    while running:
        name = next(n for n in reversed(NAMES) if n in running)
        running.discard(name)
        last = t.step(ProcessExited(name, "exit code 0"), now)
    assert AllStopped() in last or AllStopped() in t.step(Tick(), now)
