# SPDX-License-Identifier: Apache-2.0
"""The power loop's shell with cards that hang, are lost or come back, turn by turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest

from stoker.agent.devices.readings import Absent, CardReadings, Reading, State
from stoker.agent.power import power_loop, status, survey, writers
from stoker.agent.power.inputs import PowerInputs
from stoker.agent.power.plan.action import PowerAction
from stoker.agent.power.plan.card import RETURN_SHARE, ClockRange, PowerRange
from stoker.agent.power.plan.rules import CardRule, PowerRules
from stoker.agent.power.power_loop import PowerLoop
from stoker.agent.power.rules_file import RulesFile
from stoker.agent.power.setters import driver_calls, record
from stoker.agent.power.setters.card_setters import CardSetter
from stoker.agent.power.setters.cpu_limit_v2 import CpuLimitV2
from stoker.agent.power.setters.launch_limit import LaunchLimit
from stoker.agent.power.setters.record import RecordedSetting
from stoker.agent.state.lease import Lease
from stoker.agent.tracing.launch_throttle import LaunchThrottle
from stoker.native.errors import Refused, StokerError

IDS = ("a", "b", "c")
DEFAULT_W, BUDGET_W = 700.0, 1200.0


class Device:
    """A card, its readings and its setter in one."""

    silent = ""
    sim = False
    takes_limit = True

    def __init__(self, id: str) -> None:
        self.id, self.limit_w, self.state = id, DEFAULT_W, "ok"
        self.asked = 0
        self.hangs: threading.Event | None = None
        """An event that calls wait for while the sampler still reports a sound card."""
        self.clocks: ClockRange | Absent = Absent("no clocks")
        self.held = ""

    def reading(self) -> CardReadings:
        now = time.time_ns()
        values = {"power_w": 300.0, "power_limit_default_w": DEFAULT_W, "temperature_c": 50.0}
        fields = {name: Reading(value, "", now) for name, value in values.items()}
        state: State = self.state  # type: ignore[assignment]
        return CardReadings(self.id, now, fields, state, f"it is {state}")

    def _answers(self) -> bool:
        self.asked += self.state != "ok"
        if self.hangs is not None:
            self.asked += 1
            self.hangs.wait(30)
        if self.state == "hung":
            time.sleep(60)
        return self.state == "ok"

    def limits(self) -> PowerRange | Absent:
        if not self.takes_limit:
            return Absent("this device takes no power limit")
        return PowerRange(200, DEFAULT_W, 700) if self._answers() else Absent("GPU is lost")

    def power_limit_w(self) -> float | Absent:
        return self.limit_w if self._answers() else Absent("GPU is lost")

    def set_power_limit(self, watts: float) -> Absent | None:
        if not self._answers():
            return Absent("GPU is lost")
        self.limit_w = watts
        return None

    def clock_range(self) -> ClockRange | Absent:
        return self.clocks

    def set_clock_range(self, low_mhz: float, high_mhz: float) -> Absent | None:
        self.held = f"{low_mhz:g} {high_mhz:g}"
        return None

    def reset_clocks(self) -> Absent | None:
        self.held = ""
        return None

    def found(self) -> list[RecordedSetting] | Absent:
        if not self._answers():
            return Absent("GPU is lost")
        limit = RecordedSetting("nvidia", self.id, "limit_mw", round(self.limit_w * 1000))
        return [limit, RecordedSetting("nvidia", self.id, "clocks", 0)]


class Node:
    """Three cards, and what restores them."""

    def __init__(self, folder: Path, lease: Lease, rules: PowerRules) -> None:
        self.devices = {id: Device(id) for id in IDS}
        self.path = record.path(folder)
        self.holders: dict[str, frozenset[str]] = {}
        self.shell = PowerLoop(self._world(folder, lease), rules)

    def _world(self, folder: Path, lease: Lease) -> PowerInputs:
        return PowerInputs(
            folder,
            folder,
            "boot",
            cards=lambda: tuple(self.devices.values()),  # type: ignore[arg-type]
            readings=lambda: {id: device.reading() for id, device in self.devices.items()},
            holders=lambda: self.holders,
            connected=lambda: True,
            lease=lease,
        )

    def hold(self, device: str, setter: CardSetter) -> None:
        """This card takes no limit, and is held by something else."""
        self.devices[device].takes_limit = False
        inputs = msgspec.structs.replace(self.shell._inputs, job_limit=lambda _id, _watts: setter)
        self.shell = PowerLoop(
            inputs, PowerRules(control="on", budget_w=1000, declared={device: DEFAULT_W})
        )

    def restore(self, where: Path) -> str:
        """Restore by the record, as stoker-restore does."""
        found = record.load(where)
        if found is None:
            return ""
        wrong = []
        for entry in found[1]:
            device = self.devices.get(entry.id)
            if device is not None and device.state == "ok":
                device.limit_w = entry.value / 1000
            else:
                wrong.append(
                    '{"t":1.0,"level":"error","event":"not restored","detail":'
                    f'"nvidia {entry.id} limit_mw {entry.value}: GPU is lost"}}'
                )
        if not wrong:
            where.unlink()
        return "\n".join(wrong)

    def turns(self, count: int) -> None:
        """Make passes as the loop's thread does, but sooner after one another."""
        for _ in range(count):
            try:
                self.shell._pass()
            except StokerError as error:
                self.shell._end(error.message)
            time.sleep(0.03)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Make passes until this holds: writers have threads of their own, and a busy machine runs
        them late."""
        for _ in range(2000):
            self.turns(1)
            if holds():
                return
        pytest.fail(f"not within 2000 passes: {what}; limits {self.limits()}, owed {self.owed()}")

    def until_used(self, watts: float, ids: Sequence[str] = IDS) -> None:
        """Make passes until these cards have the whole of a budget, and nothing beyond it."""
        limits = self.limits
        self.until(lambda: abs(sum(limits()[id] for id in ids) - watts) <= 1, f"{watts} W of {ids}")

    def say(self) -> None:
        self.shell._report.write(self.shell._status())

    def limits(self) -> dict[str, float]:
        return {id: device.limit_w for id, device in self.devices.items()}

    def owed(self) -> list[str]:
        found = record.load(self.path)
        return [entry.id for entry in found[1]] if found else []

    def clocks(self) -> list[str]:
        """Cards whose clocks would be let go."""
        found = record.load(self.path)
        return [entry.id for entry in found[1] if entry.what == "clocks"] if found else []


RULES = PowerRules(control="on", budget_w=BUDGET_W, cards={"c": CardRule(at_most_w=650)})


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr(survey, "setter_of", lambda card: card)
    monkeypatch.setattr("stoker.agent.power.setters.card_writer.TICK_S", 0.005)
    with Lease.open(tmp_path / "lease") as lease:
        made = Node(tmp_path, lease, RULES)
        monkeypatch.setattr(record, "restore", made.restore)
        yield made
        for device in made.devices.values():
            device.state, device.hangs = "ok", None
        made.shell.stop()
        made.shell._end("the test ends")
        for thread in threading.enumerate():
            if thread.name.startswith("limit of"):
                thread.join(60)
                assert not thread.is_alive()


@pytest.mark.parametrize("state", ["lost", "hung"])
def test_a_card_in_trouble_is_not_asked_and_counts_with_what_it_may_draw(
    node: Node, state: str
) -> None:
    """One that hangs may be at work, at its default limit; one that is off the bus is not."""
    counts = RETURN_SHARE * DEFAULT_W if state == "lost" else DEFAULT_W
    node.devices["c"].state = state
    node.until_used(BUDGET_W - counts, ("a", "b"))
    assert node.devices["c"].asked == 0
    assert node.limits()["c"] == DEFAULT_W
    assert node.owed() == ["a", "b"]


def test_a_card_lost_on_the_way_makes_room_and_what_cards_hold_adds_up(
    node: Node, tmp_path: Path
) -> None:
    node.until_used(BUDGET_W)
    before = node.limits()
    node.devices["c"].state = "lost"
    node.until(
        lambda: all(node.limits()[id] > before[id] + 50 for id in ("a", "b")), "both have room"
    )
    node.say()
    said = status.read(tmp_path)
    held = {card.id: card.holds_w for card in said.cards}
    assert said.committed_w == pytest.approx(sum(watts or 0 for watts in held.values()))
    assert said.committed_w <= BUDGET_W + 0.5
    assert held["c"] == pytest.approx(RETURN_SHARE * DEFAULT_W)
    (lost,) = [card for card in said.cards if card.gone]
    assert (lost.id, lost.limit_w, lost.power_w) == ("c", None, None)


def test_it_takes_part_again_when_it_answers(node: Node) -> None:
    node.devices["c"].state = "lost"
    node.until_used(BUDGET_W - RETURN_SHARE * DEFAULT_W, ("a", "b"))
    node.devices["c"].state = "ok"
    node.until(lambda: sorted(node.owed()) == ["a", "b", "c"], "it takes part")
    node.until_used(BUDGET_W)


def test_what_is_owed_to_a_lost_card_keeps_nobody_else_from_the_budget(node: Node) -> None:
    """An earlier agent set all three, and the third was lost before it could be given back."""
    found = [RecordedSetting("nvidia", id, "limit_mw", 500_000) for id in IDS]
    record.store(node.path, "boot", found)
    node.devices["c"].state = "lost"
    node.until_used(BUDGET_W - RETURN_SHARE * DEFAULT_W, ("a", "b"))
    assert sorted(node.owed()) == ["a", "b", "c"]
    node.shell._end("the test ends")
    assert (node.limits()["a"], node.limits()["b"]) == (500, 500)
    assert node.owed() == ["c"]
    node.devices["c"].state = "ok"
    node.until_used(BUDGET_W)
    assert sorted(node.owed()) == ["a", "b", "c"]
    node.shell._end("the test ends")
    assert set(node.limits().values()) == {500} and node.owed() == []


def test_a_card_that_answers_and_cannot_be_restored_keeps_everything_as_it_is(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    record.store(node.path, "boot", [RecordedSetting("nvidia", "a", "limit_mw", 500_000)])
    wrong = '{"event":"not restored","detail":"nvidia a limit_mw 500000: no permission"}'
    monkeypatch.setattr(record, "restore", lambda where: wrong)
    node.turns(5)
    assert set(node.limits().values()) == {DEFAULT_W}
    assert node.owed() == ["a"]


def test_a_card_that_was_not_given_back_in_time_is_restored_before_the_next_record(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "GIVE_BACK_S", 0.0)
    node.until_used(BUDGET_W)
    node.devices["c"].state = "lost"
    node.shell._end("the test wants it")
    node.until(lambda: node.shell._writers.are_at_work, "it begins again")
    kept = record.load(node.path)
    assert kept is not None
    assert {entry.id: entry.value for entry in kept[1]} == dict.fromkeys(IDS, 700_000)


def test_a_broker_without_a_scheduler_is_no_cluster(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(power_loop, "CLUSTER_LOST_S", 0.2)
    lease = node.shell._inputs.lease
    boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    lease.renew(boot_ns + 600_000_000_000)
    node.until_used(BUDGET_W)
    lease.renew(boot_ns)  # has run out
    node.until(lambda: "no scheduler for" in node.shell._why, "the loop ends for that reason")
    node.until(lambda: set(node.limits().values()) == {DEFAULT_W}, "the cards are given back")
    lease.renew(boot_ns + 600_000_000_000)
    node.until_used(BUDGET_W)


def test_a_bound_of_a_card_that_is_gone_does_not_let_the_budget_go(node: Node) -> None:
    del node.devices["c"]
    node.until_used(BUDGET_W, ("a", "b"))
    assert node.shell._refused == "bounds wait for devices that are not there: c"


def test_a_card_that_hangs_while_the_loop_begins_costs_its_deadline_once(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sampler, which makes other calls, says that all is well."""
    monkeypatch.setattr(driver_calls, "ANSWER_S", 0.05)
    returns = node.devices["c"].hangs = threading.Event()
    node.until_used(BUDGET_W - DEFAULT_W, ("a", "b"))
    assert node.devices["c"].asked == 1
    assert node.owed() == ["a", "b"]
    node.devices["c"].hangs = None
    returns.set()
    node.until(lambda: sorted(node.owed()) == ["a", "b", "c"], "the third takes part")
    node.until_used(BUDGET_W)


def test_one_that_hangs_when_it_is_about_to_be_set_does_not_stop_the_others(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_calls, "ANSWER_S", 0.05)
    returns = threading.Event()
    take = node.shell._survey.take

    def then_hangs(rules: PowerRules) -> bool:
        done = take(rules)
        node.devices["c"].hangs = returns
        return done

    monkeypatch.setattr(node.shell._survey, "take", then_hangs)
    node.until_used(BUDGET_W - DEFAULT_W, ("a", "b"))
    assert node.owed() == ["a", "b"]
    node.devices["c"].hangs = None
    returns.set()


def test_clocks_are_on_record_only_when_stoker_holds_them(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator may have locked them, and a crash would let go what stoker never held."""
    for device in node.devices.values():
        device.clocks = ClockRange(300, 1980, 15)
    node.until_used(BUDGET_W)
    assert sorted(node.owed()) == ["a", "b", "c"] and node.clocks() == []
    controller = node.shell._controller
    assert controller is not None

    def step(*_: object) -> list[PowerAction]:
        return [PowerAction("b", "clocks", 1200, "", 1, None)]

    monkeypatch.setattr(controller, "step", step)
    monkeypatch.setattr(record, "store", _full_disk)
    node.shell._tick()
    assert not node.shell._report.recent[-1].done
    monkeypatch.setattr(record, "store", STORE)
    node.until(lambda: bool(node.devices["b"].held), "the clocks of b are held")
    assert node.clocks() == ["b"] and node.devices["b"].held == "300 1200"
    assert node.devices["a"].held == ""
    assert len(node.owed()) == 4


STORE = record.store


def _full_disk(*_: object) -> None:
    raise Refused("no room")


def test_a_tenants_cap_that_cannot_be_kept_is_said_once_and_in_the_status(node: Node) -> None:
    rules = msgspec.structs.replace(RULES, tenants={"eve": 250})
    node.shell._file = RulesFile(node.path.parent, rules)
    node.holders = {id: frozenset({"eve"}) for id in IDS}
    node.until(lambda: node.limits() == dict.fromkeys(IDS, 200), "all are at their least")
    node.say()
    found = status.read(node.path.parent)
    assert "the cap of tenant eve is 250 W" in found.why
    caps = [each for each in node.shell._report.recent if each.what == "cap"]
    assert [(each.card, each.value) for each in caps] == [("eve", 250)]


def test_a_card_with_a_sensor_and_no_limit_has_its_launches_held(node: Node) -> None:
    """It takes part in the budget, and the status says how its jobs are held."""
    holds = LaunchThrottle()
    measured = 400.0
    node.hold("a", LaunchLimit("a", DEFAULT_W, holds, jobs=list, power_w=lambda: measured))
    node.until(lambda: holds.share(["a"]) < 1024, "launches are held")
    node.until(lambda: _told_limits_w(node) <= 1000.5, "the budget holds")
    said = {card.id: card for card in status.read(node.shell._inputs.run).cards}
    assert said["a"].limit_w is not None and said["a"].limit_w < 399
    assert "launches begin in" in said["a"].note and not said["b"].note
    node.shell._end("over")
    assert holds.share(["a"]) == 1024


def _told_limits_w(node: Node) -> float:
    """The sum of the limits that the status tells."""
    node.say()
    cards = status.read(node.shell._inputs.run).cards
    return sum(card.limit_w or 0.0 for card in cards)


def _is_set(quota: Path) -> bool:
    return quota.read_text() != "max 100000"


def test_a_job_that_comes_later_is_on_the_record_before_its_group_is_set(
    node: Node, tmp_path: Path
) -> None:
    jobs: list[tuple[str, Path]] = []
    node.hold("a", CpuLimitV2(DEFAULT_W, 4, lambda: jobs))
    node.until(lambda: node.owed() == ["b", "c"], "the two cards are on the record")
    for name in ("7.1", "8.1"):
        (tmp_path / name).mkdir()
        quota = tmp_path / name / "cpu.max"
        quota.write_text("max 100000")
        jobs.append((name, tmp_path / name))
        node.until(partial(_is_set, quota), f"{quota} is set")
        assert node.owed()[-1] == str(quota)
    (tmp_path / "8.1" / "cpu.max").unlink()
    node.shell._end("over")
    assert (tmp_path / "7.1" / "cpu.max").read_text() == "max 100000"
    assert not node.path.exists()
