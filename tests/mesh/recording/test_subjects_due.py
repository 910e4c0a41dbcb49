# SPDX-License-Identifier: Apache-2.0
"""Details are read each in its time, those of ended jobs once more, and never too many."""

from __future__ import annotations

from fakes.views import job

from stoker.mesh.recording.subjects_due import DEVICES_MAX, READS_OF_END, SubjectsDue


def test_everything_has_its_time_and_never_more_than_so_many_at_once() -> None:
    due = SubjectsDue(2)
    due.devices([f"n1:{at}" for at in range(5)])
    due.jobs([job(4, "running"), job(3, "pending")])
    rounds = [due.take() for _ in range(4)]
    assert all(len(each) == 2 for each in rounds)
    first = [*rounds[0], *rounds[1], *rounds[2], *rounds[3]]
    assert first[0] == ("job", "4") and ("explain", "3") in first
    assert {("readings", f"n1:{at}") for at in range(5)} < set(first), first


def test_a_job_that_ended_is_read_until_its_end_was_seen_and_then_no_more() -> None:
    due = SubjectsDue(1)
    due.jobs([job(4, "succeeded")])
    assert due.take() == [("job", "4")] == due.take()
    due.read(job(4, "succeeded", trace={"kernels": []}))
    assert due.take() == []
    due.jobs([job(4, "succeeded")])
    assert due.take() == []


def test_a_trace_that_is_not_there_yet_is_waited_for_and_not_for_ever() -> None:
    due = SubjectsDue(1)
    due.jobs([job(4, "succeeded")])
    reads = 0
    while due.take() == [("job", "4")]:
        reads += 1
        whole = due.read(job(4, "succeeded", trace_absent="it is not settled"))
        assert whole == (reads == READS_OF_END)
    assert reads == READS_OF_END


def test_a_topology_is_read_once_and_devices_have_a_bound() -> None:
    due = SubjectsDue(100)
    due.nodes(["n1", "n2"])
    due.devices([f"n1:{at}" for at in range(1000)])
    taken = due.take()
    assert taken[:2] == [("topology", "n1"), ("topology", "n2")]
    assert len(taken) == 2 + DEVICES_MAX
    due.nodes(["n1", "n2"])
    assert ("topology", "n1") not in due.take()
