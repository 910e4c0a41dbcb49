# SPDX-License-Identifier: Apache-2.0
"""Windows open and close on time, and programs that have changed since have no cost."""

from __future__ import annotations

from stoker.agent.tracing.host_cost import EVERY_S, LEAST_S, HostMeter
from stoker.agent.tracing.job_governor import HostCost
from stoker.probes.host.host_probes import Cost

NOTHING = HostCost()


class Programs:
    """The cost that the next window measures."""

    def __init__(self) -> None:
        self.run_ns = 600
        self.absent = ""
        self.opened = self.closed = 0

    def begin_cost(self) -> None:
        assert self.opened == self.closed
        self.opened += 1

    def cost(self) -> Cost:
        self.closed += 1
        return Cost(absent=self.absent) if self.absent else Cost(self.run_ns, 3, 50_000_000, {})


def measured(meter: HostMeter, programs: Programs, now_s: float) -> HostCost:
    meter.newest(programs, now_s)
    meter.look(programs, 2, now_s + LEAST_S)
    return meter.newest(programs, now_s + LEAST_S)


def test_it_is_measured_at_once_and_then_now_and_then() -> None:
    meter, programs = HostMeter(), Programs()
    assert meter.newest(programs, 100.0) == NOTHING
    meter.look(programs, 2, 100.0 + LEAST_S)
    for second in range(1, int(EVERY_S)):
        assert meter.newest(programs, 100.0 + second) == HostCost(300, 50_000_000)
        meter.look(programs, 2, 100.5 + second)
    assert programs.opened == programs.closed == 1
    meter.newest(programs, 100.0 + EVERY_S)
    assert programs.opened == 2


def test_a_drain_that_comes_at_once_closes_no_window() -> None:
    meter, programs = HostMeter(), Programs()
    meter.newest(programs, 100.0)
    meter.look(programs, 1, 100.0 + LEAST_S / 50)
    assert programs.closed == 0
    meter.look(programs, 1, 100.0 + LEAST_S)
    assert programs.closed == 1


def test_a_cost_from_before_a_change_is_void_after_it() -> None:
    meter, programs = HostMeter(), Programs()
    assert measured(meter, programs, 100.0).run_ns == 300
    meter.restart()
    programs.run_ns = 20
    assert meter.newest(programs, 101.0) == NOTHING
    meter.look(programs, 1, 101.0 + LEAST_S)
    assert meter.newest(programs, 102.0) == HostCost(20, 50_000_000)


def test_a_window_in_which_they_changed_is_thrown_away_and_another_opened() -> None:
    meter, programs = HostMeter(), Programs()
    meter.newest(programs, 100.0)
    meter.restart()
    meter.look(programs, 1, 100.0 + LEAST_S)
    assert meter.newest(programs, 101.0) == NOTHING
    assert programs.opened == 2
    meter.look(programs, 1, 101.0 + LEAST_S)
    assert meter.newest(programs, 102.0).run_ns == 600


def test_a_kernel_that_does_not_count_is_tried_again_later() -> None:
    meter, programs = HostMeter(), Programs()
    programs.absent = "bpf_stats_enabled is not there"
    assert measured(meter, programs, 100.0) == NOTHING
    programs.absent = ""
    assert measured(meter, programs, 100.0 + EVERY_S).run_ns == 300
