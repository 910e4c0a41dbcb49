# SPDX-License-Identifier: Apache-2.0
"""The watch without cards: sources that tell the same, order of what follows, what outlives it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from structlog.testing import capture_logs

from stoker.agent.devices.readings import Absent, CardReadings, Field, Reading
from stoker.agent.devices.samplers.sampler import Samplers
from stoker.agent.health import journal, watch
from stoker.agent.health.examine import Examiner
from stoker.agent.health.kernel_log import parse_text
from stoker.agent.health.nvml_events import NvmlEvent
from stoker.agent.health.signals import Signal
from stoker.agent.health.watch import LOGGED_MAX, UNCOMMITTED_MAX, HealthInputs, HealthWatch, now_ns
from stoker.probes.host.notices import Notice
from stoker.scheduler.nouns import NodeReport, TaskKey

S = 1_000_000_000
LINE = "NVRM: Xid (PCI:0000:3b:00): {}, pid=7, words"


class Bench:
    """A world that notes what it is told, in order."""

    def __init__(self, folder: Path, boot: str = "boot-1") -> None:
        self.told: list[Any] = []
        self.reports: list[NodeReport] = []
        world = HealthInputs(
            folder,
            boot,
            Samplers(),
            lambda: {"GPU-a": "0000:3b:00.0", "GPU-b": "0000:5e:00.0"},
            lambda device: (TaskKey(1, 1, 0),) if device == "GPU-a" else (),
            self.says,
            lambda keys, reason: self.told.append(("end", keys, reason)),
            folder / "no-kmsg",
        )
        self.watch = HealthWatch(world)
        self.watch.look(now_ns())

    def says(
        self, holds: Mapping[str, str], warnings: Mapping[str, str], drain: str
    ) -> NodeReport | None:
        said = ("says", dict(holds), dict(warnings), drain)
        news = said not in [each for each in self.told if each[0] == "says"][-1:]
        self.told.append(said)
        self.reports += [NodeReport("vm", "boot-1", len(self.reports), 1, 1)] * news
        return self.reports[-1] if news else None

    def line(self, text: str) -> None:
        line = parse_text(text)
        assert line is not None
        self.watch._line(line)


async def test_a_card_is_reported_before_attempts_on_it_are_ended(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.line(LINE.format(79))
    says, end = bench.told
    assert says[:2] == ("says", {"GPU-a": "needs reset: Xid 79: GPU has fallen off the bus"})
    assert end == ("end", (TaskKey(1, 1, 0),), "device GPU-a: Xid 79: GPU has fallen off the bus")


async def test_an_xid_that_three_sources_tell_is_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.line(LINE.format(31))
    bench.watch.notice(notice(31))
    bench.watch._heard([NvmlEvent("GPU-a", "xid", 31, 3)])
    assert bench.watch.counters["health_told_twice"] == 4
    assert bench.watch.counters["health_signals"] == 1
    bench.watch._heard([NvmlEvent("GPU-b", "xid", 31, 2)])
    assert bench.watch.counters["health_signals"] == 3


def notice(number: int, ago_s: int = 0) -> Notice:
    at_ns = time.monotonic_ns() - ago_s * S
    return Notice("xid", at_ns, 0, 0, 0, "", xid=number, pci="0000:3b:00.0", text="x")


async def test_an_old_notice_ends_nothing_where_the_log_told_it_already(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.watch._kernel_log.why = ""
    bench.watch.notice(notice(31, ago_s=600))
    assert bench.told == [] and bench.watch.counters["health_told_twice"] == 1
    bench.watch._kernel_log.why = "no permission"
    bench.watch.notice(notice(79, ago_s=600))  # nobody else told it
    assert "GPU-a" in bench.watch.verdict.holds()


async def test_lines_of_no_card_of_ours_are_counted(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.line("NVRM: Xid (PCI:0000:99:00): 79, x")
    assert bench.told == [] and bench.watch.counters["health_elsewhere"] == 1


async def test_a_storm_of_lines_is_few_lines_and_the_first_is_acted_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for _ in range(10_000):
        bench.line(LINE.format(31))
    assert [each[0] for each in bench.told[:2]] == ["says", "end"]
    assert len(bench.told) < 10
    assert bench.watch.counters["health_signals"] == 10_000


async def test_when_what_was_found_is_in_the_log_is_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with capture_logs() as logs:
        bench.line(LINE.format(79))
        bench.line(LINE.format(95))  # as bad as before: no news for the cluster's log
        bench.watch.reported(other := NodeReport("vm", "boot-1", 9, 1, 1))
        bench.watch.committed(NodeReport("vm", "boot-1", 3, 1, 1))  # of another one
        told = msgspec.structs.replace(other, settled=5)  # as the node's core sends it
        bench.watch.committed(told)
        bench.watch.committed(told)
    first, second, committed = logs
    assert (first["reported"], second["reported"]) == (True, False)
    assert committed["event"] == "device health: committed"
    assert first["read_ns"] <= first["decided_ns"] == committed["decided_ns"]
    assert committed["committed_ns"] > committed["decided_ns"]


async def test_reports_that_are_never_committed_are_bounded(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for number in range(UNCOMMITTED_MAX + 3):
        bench.watch.reported(NodeReport("vm", "boot-1", number, 1, 1), 1)
    assert bench.watch.counters["health_commits_untold"] == 3


async def test_lines_of_one_second_are_bounded_and_repeats_are_tallied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, at_ns = Bench(tmp_path), now_ns()
    monkeypatch.setattr(watch, "now_ns", lambda: at_ns)
    with capture_logs() as logs:
        for number in range(1, 173):
            bench.line(LINE.format(number))
            bench.line(LINE.format(number))
        bench.watch.look(at_ns + 9 * S)
        bench.watch.look(at_ns + 9 * S)
    assert len([each for each in logs if not each["event"].endswith("without a line each")]) == (
        LOGGED_MAX
    )
    assert bench.watch.counters["health_not_logged"] > 0
    tallies = [line["count"] for line in logs if line["event"].endswith("without a line each")]
    assert sum(tallies) == bench.watch.counters["health_xids_repeated"] == 172


async def test_a_lost_card_without_attempts_is_one_line(tmp_path: Path) -> None:
    bench, told = Bench(tmp_path), now_ns()
    with capture_logs() as logs:
        for second in range(0, 60, 2):
            bench.watch._take([Signal("GPU-b", "lost", told + second * S)], told + second * S)
    assert [line["event"] for line in logs] == ["device health: raised"]
    bench.watch._take([Signal("GPU-a", "lost", told)], told)
    bench.watch._take([Signal("GPU-a", "lost", told + 3 * S)], told + 3 * S)
    assert [each[0] for each in bench.told].count("end") == 2


async def test_a_new_agent_knows_what_is_held_and_a_new_boot_does_not(tmp_path: Path) -> None:
    Bench(tmp_path).line(LINE.format(95))
    again = Bench(tmp_path)
    assert set(again.watch.verdict.holds()) == {"GPU-a"}
    assert Bench(tmp_path, "boot-2").watch.verdict.holds() == {}


async def test_what_is_held_is_proven_anew_to_a_new_agent(tmp_path: Path) -> None:
    """It was seen long ago, and nobody looked since: that is no proof."""
    bench, long_ago = Bench(tmp_path), now_ns() - 600 * S
    for kind in ("hung", "silent", "silent", "silent"):
        bench.watch._take([Signal("GPU-b", kind, long_ago)], long_ago)  # type: ignore[arg-type]
    held = bench.watch.verdict.holds()
    again = Bench(tmp_path)
    again.watch.look(now_ns())
    assert again.watch.verdict.holds() == held != {}
    nothing = {name: Absent("unexpected data") for name in ("power_w", "temperature_c")}
    found = again.watch._examiner("GPU-b").look(card(1, **nothing), now_ns())
    assert [signal.kind for signal in found] == ["silent"]
    again.watch.look(now_ns() + 4 * S)
    assert again.watch.verdict.holds() == {}


OTHER = b'{"format":2,"boot_id":"boot-1","kept":{}}'


@pytest.mark.parametrize("data", [b"", b"{", OTHER, b"\xff"])
def test_a_journal_that_cannot_be_read_holds_nothing(data: bytes, tmp_path: Path) -> None:
    (tmp_path / journal.NAME).write_bytes(data)
    assert journal.load(tmp_path, "boot-1") == journal.Kept()


async def test_a_full_disk_is_counted_and_the_card_is_held(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "gone")
    bench.line(LINE.format(48))
    assert bench.watch.counters["health_not_stored"] == 1
    assert "GPU-a" in bench.watch.verdict.holds()


# --- readings ---------------------------------------------------------------------------------


def card(at: int, **values: Any) -> CardReadings:
    fields: dict[str, Field] = {
        "temperature_slowdown_c": Reading(90),
        "temperature_shutdown_c": Reading(95),
        "power_w": Reading(100.0 + at),
        "temperature_c": Reading(50),
    }
    for name, value in values.items():
        fields[name] = value if isinstance(value, Absent) else Reading(value)
    return CardReadings("g", at * S, fields)


def looks(*found: CardReadings) -> list[list[tuple[str, int]]]:
    examiner = Examiner("g")
    return [[(s.kind, s.times) for s in examiner.look(each, each.t_ns)] for each in found]


def test_counters_tell_by_their_growth_alone() -> None:
    first, second, third = looks(
        card(1, ecc_corrected=7), card(2, ecc_corrected=9), card(3, ecc_corrected=9)
    )
    assert (first, second, third) == ([], [("ecc_corrected", 2)], [])


def test_a_counter_that_goes_back_tells_of_a_reset() -> None:
    assert looks(card(1, ecc_corrected=7), card(2, ecc_corrected=0))[1] == [("reset_seen", 1)]
    assert looks(card(1, energy_j=1e6), card(2, energy_j=5.0))[1] == [("reset_seen", 1)]
    assert looks(card(1, energy_j=5.0), card(2, energy_j=4.9))[1] == []


def test_a_reset_while_no_agent_ran_is_told_by_the_energy_counter() -> None:
    later = Examiner("g", 1e6)
    assert [s.kind for s in later.look(card(9, energy_j=20.0), 9 * S)] == ["reset_seen"]
    assert Examiner("g", 1e6).look(card(9, energy_j=1e6 + 5), 9 * S) == []


def test_a_port_that_was_never_up_is_not_down() -> None:
    up = {"port": 0, "up": True, "errors": 0}
    never = {"port": 1, "up": False, "errors": None}
    down = {"port": 0, "up": False, "errors": 4}
    first, second = looks(card(1, links=[up, never]), card(2, links=[down, never]))
    assert first == [] and sorted(second) == [("link_down", 1), ("link_errors", 4)]


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ({"temperature_c": 90}, ["hot"]),
        ({"temperature_c": 92}, ["hot", "near_shutdown"]),
        ({"remap_pending": True}, ["remap_pending"]),
        ({"remap_pending": False, "remap_failed": False}, []),
        ({"remap_failed": True}, ["remap_failed"]),
        ({"recovery_action": "none"}, []),
        ({"recovery_action": "drain and reset"}, ["recovery"]),
        ({"recovery_action": "action 99"}, ["recovery"]),
        ({"throttle": ["idle", "power limit"]}, []),
        ({"throttle": ["hard thermal", "power brake"]}, ["slowdown", "brake"]),
        ({"memory_temperature_c": 96, "memory_temperature_max_c": 95}, ["memory_hot"]),
        ({"recovery_action": Absent("not supported")}, []),
    ],
)
def test_levels(values: dict[str, Any], kinds: list[str]) -> None:
    assert [kind for kind, _ in looks(card(1, **values))[0]] == kinds


def test_a_driver_that_answers_nothing_any_more() -> None:
    nothing = {name: Absent("unexpected data") for name in ("power_w", "temperature_c")}
    found = looks(card(1), card(2, **nothing), card(2, **nothing), card(3, **nothing), card(4))
    assert found == [[], [("silent", 1)], [], [("silent", 1)], [("reset_seen", 1)]]
    assert looks(card(1, **nothing)) == [[]]  # it never answered: that is no news


def test_one_reading_that_fails_is_a_lost_sample() -> None:
    assert looks(card(1), card(2, power_w=Absent("timeout")))[1] == [("lost_samples", 1)]


def test_a_sensor_is_stuck_if_the_energy_counter_tells_otherwise() -> None:
    stuck = [card(t, power_w=80.0, energy_power_w=400.0) for t in range(1, 6)]
    assert [len(each) for each in looks(*stuck)] == [0, 0, 0, 1, 1]
    idle = [card(t, power_w=80.0, energy_power_w=82.0) for t in range(1, 9)]
    assert not any(looks(*idle))
    later = [
        card(t, power_w=p, energy_power_w=400.0) for t, p in ((9, 80.0), (10, 80.0), (11, 390.0))
    ]
    assert not any(looks(*idle, *later))  # it averages over a second: a load shows late


def test_a_card_of_which_there_is_no_news_is_glanced_at() -> None:
    examiner = Examiner("g")
    stuck = {"power_w": 80.0, "energy_power_w": 400.0}
    told = [len(examiner.glance(stuck, second * S)) for second in range(1, 6)]
    assert told == [0, 0, 0, 1, 1]
    assert examiner.glance(stuck | {"power_w": 395.0}, 6 * S) == []
    assert examiner.glance({}, 7 * S) == []


def test_heat_holds_the_clock_back_for_most_of_the_time() -> None:
    slow = [card(t, throttle_thermal_ns=t * 0.6 * S) for t in range(1, 14)]
    assert [len(each) for each in looks(*slow)] == [0] * 10 + [1] * 3


def test_states_of_a_card_that_does_not_answer() -> None:
    examiner = Examiner("g")
    hung = "hung call f: no answer for 1.7 s"
    assert examiner.trouble("hung", hung, 1) == [Signal("g", "hung", 1, text="hung call f")]
    assert examiner.trouble("ok", "", 1) == [] == examiner.trouble("starting", "x", 1)


class Calling:
    """Cards whose calls hang in so many seconds; None for one without a call under way."""

    def __init__(self, *hangs_in_s: float | None) -> None:
        self._hangs_in_s = hangs_in_s

    def every(self) -> tuple[Any, ...]:
        return tuple(SimpleNamespace(hangs_in_s=lambda s=each: s) for each in self._hangs_in_s)


async def test_the_next_look_is_when_a_call_under_way_would_hang(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for cards, rest_s in (
        (Calling(), watch.CALM_S),
        (Calling(None, 1.4), watch.CALM_S),
        (Calling(1.4, 0.3), 0.3),
        (Calling(-0.1), 0.0),
    ):
        bench.watch._world = msgspec.structs.replace(bench.watch._world, samplers=cast(Any, cards))
        assert bench.watch._rest_s() == rest_s
    bench.line(LINE.format(79))
    assert bench.watch._rest_s() == watch.LOOK_S


async def test_a_trouble_is_told_when_it_begins_and_when_it_is_over(tmp_path: Path) -> None:
    bench, told = Bench(tmp_path), list[str]()
    bench.watch._world = msgspec.structs.replace(
        bench.watch._world, troubled=lambda: told.append("troubled")
    )
    bench.watch._note("GPU-a", "ok")
    assert not told and bench.watch._rest_s() == watch.CALM_S
    bench.watch._note("GPU-a", "hung")
    bench.watch._note("GPU-a", "hung")
    assert len(told) == 1 and bench.watch._rest_s() == watch.LOOK_S
    bench.watch._note("GPU-a", "ok")
    assert len(told) == 2 and bench.watch._rest_s() == watch.CALM_S
