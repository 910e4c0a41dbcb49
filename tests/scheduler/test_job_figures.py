# SPDX-License-Identifier: Apache-2.0
"""The few numbers of a job are those that the whole record has."""

from __future__ import annotations

from stoker.scheduler import wire_views
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.job_figures import JobFigures
from stoker.scheduler.records import DeviceSet, NodeUp, Submit
from stoker.scheduler.wire_views import JobInfo


def test_each_number_is_the_field_of_its_name() -> None:
    raw = bytearray(wire_views._JOB_INFO.size)
    for at in range(len(raw)):  # each byte differs from its neighbours
        raw[at] = at % 251
    numbers = list(wire_views._JOB_INFO.unpack(bytes(raw)))
    numbers[24] = 1  # a state that there is
    record = wire_views._JOB_INFO.pack(*numbers)
    whole, few = JobInfo.unpack(record), JobFigures.unpack(record)
    assert few._asdict() == {name: getattr(whole, name) for name in JobFigures._fields}
    assert len(set(few)) == len(few)


def test_a_placed_job_has_them_and_an_unknown_one_none() -> None:
    core = Core(Limits(nodes=1, devices=2, jobs=4, finished=2, tasks=4))
    asked = [NodeUp(1, 2, 3, 4000, 1 << 30, 1), DeviceSet(1, 0), Submit(1, gpu_milli=250)]
    core.apply(core.propose(asked, 1).commands, 1)
    whole, few = core.job(1), core.job_figures(1)
    assert whole is not None and few is not None
    assert (few.gpu_milli, few.candidates) == (250, whole.candidates) and few.candidates
    assert core.job_figures(2) is None
