# SPDX-License-Identifier: Apache-2.0
"""Stories of builds: schedulers of two versions in one cluster, and one that returns too old."""

from __future__ import annotations

from typing import Any

from stoker.mesh.log.feature_level import BUILD, FeatureRange
from stoker.mesh.replica import events, snapshots
from stoker.mesh.replica.works.array_bound import MOST
from stoker.mesh.replica.works.work import AdminApplied
from stoker.mesh.sim.scheduler_process import SchedulerProcess, SchedulerRequest
from stoker.native.errors import Refused, StokerError
from stoker.scheduler.nouns import MILLI, JobSpec, Owner
from tests.agent.sim.mutants.planting import Mutant
from tests.agent.sim.mutants.table import MUTANTS
from tests.agent.sim.scenario import scenario
from tests.agent.sim.stage import Stage

OLD, NEW, NEWEST = FeatureRange(1, 1), BUILD, BUILD.newest
PROPOSALS = "stoker.mesh.replica.peers.upgrade_proposals"
RANGES = "stoker.mesh.replica.peers.peer_ranges"

LAGS_UNHEARD = Mutant(
    "lags-unheard", PROPOSALS, "refusal",
    "elif not found.has(level):", "elif False:",
    "a leader proposes no level that a scheduler of the roster does not support",
)  # fmt: skip
SILENT_COUNTS = Mutant(
    "silent-counts", PROPOSALS, "refusal",
    "if silent:", "if False:",
    "a leader proposes no level while a scheduler of the roster does not answer",
)  # fmt: skip
SAID_FOR_EVER = Mutant(
    "said-for-ever", RANGES, "PeerRanges.of",
    "if self._pledges.has(scheduler, now_ns) else None", "",
    "the word of a scheduler about its levels is worth no more than its pledge",
)  # fmt: skip
JUDGES_BY_BUILD = Mutant(
    "judges-by-build", "stoker.mesh.replica.requests.user_works", "UserWorks._submit",
    "state.level)", "self._settings.supports.newest)",
    "what a level adds is judged by the level in the state, not by the build",
)  # fmt: skip
HOLDS_BEYOND = next(each for each in MUTANTS if each.name == "holds-beyond")
LOADS_BEYOND = Mutant(
    "loads-beyond", "stoker.mesh.replica.replica", "Replica._remember",
    "feature_level.check(self.state.level, supports, \"the state here has feature level\")", "pass",
    "a replica loads no state beyond the levels of its build",
)  # fmt: skip
INSTALLS_BEYOND = Mutant(
    "installs-beyond", "stoker.mesh.replica.peers.snapshot_exchange", "SnapshotExchange._completed",
    "check(snapshot.config.level, self._supports, \"the snapshot that came has feature level\")",
    "pass",
    "a replica installs no snapshot beyond the levels of its build",
)  # fmt: skip
PLEDGES_BEYOND = Mutant(
    "pledges-beyond", RANGES, "PeerRanges.goes_beyond",
    "if self.own.has(level):", "if True:",
    "a replica pledges to nobody whose state is beyond the levels of its build",
)  # fmt: skip
HEARS_ON = Mutant(
    "hears-on", "stoker.mesh.replica.replica", "Replica._peer_message",
    "if self._leadership.beyond and self._leadership.halted:", "if False:",
    "a replica that went no further hears nobody and stores nothing",
)  # fmt: skip


class Upgrades:
    """The requests of an administrator and of a user with a large array, and their answers."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.answers: list[Any] = []

    def upgrade(self) -> Any:
        """Ask whoever leads to raise the level, and return the answer."""
        return self._ask(lambda token: events.Upgrade(token, {}))

    def large(self) -> StokerError:
        """Submit an array that only the newer level lets in, and return why it is refused; the
        cluster has no node for its jobs at any level."""
        spec = JobSpec(("job", "large", "1", "succeeded"), gpu_milli=16 * MILLI, trace="off")
        owner, jobs = Owner("ann", 1000, 1000), tuple(range(MOST[1] + 1))
        answer = self._ask(lambda token: events.JobSubmitted(token, owner, b"", spec, jobs))
        assert isinstance(answer, StokerError)
        return answer

    def _ask(self, make: Any) -> Any:
        stage, count = self.stage, len(self.answers)
        leader = stage.leader()
        request = SchedulerRequest(
            "admin", count, make, lambda answered: self.answers.append(answered.value)
        )
        stage.world.network.post("admin", leader.name, leader.take, request)
        stage.until(lambda: len(self.answers) > count, "the answer")
        return self.answers[-1]


def restarted(stage: Stage, scheduler: SchedulerProcess, supports: FeatureRange) -> None:
    """Exchange the build of a scheduler, as an administrator does: it is stopped in order."""
    scheduler.stop()
    stage.until(lambda: not scheduler.alive, "its end")
    scheduler.supports = supports
    scheduler.start()
    stage.pass_time(4)


def levels(stage: Stage) -> list[int]:
    return [each.replica.state.level for each in stage.schedulers]


def of_one_mind(stage: Stage) -> bool:
    return len({each.replica.state.index for each in stage.schedulers}) == 1


def raised(stage: Stage) -> tuple[SchedulerProcess, SchedulerProcess]:
    """Raise the level; return the leader and a follower, which have all applied it."""
    stage.ready()
    assert Upgrades(stage).upgrade() == AdminApplied(True)
    stage.until(lambda: levels(stage) == [NEWEST] * 3, "the newer level everywhere")
    leader = stage.leader()
    return leader, stage.others(leader)[0]


@scenario(
    40,
    "The level rises when every scheduler has said that it supports it, and until then what it adds"
    " is refused by whoever leads.",
    LAGS_UNHEARD,
    JUDGES_BY_BUILD,
)
def test_schedulers_are_upgraded_one_by_one_while_a_job_runs() -> None:
    stage = Stage(level=1, supports=OLD)
    stage.ready()
    asks = Upgrades(stage)
    stage.submit("long", 60)
    stage.until(lambda: stage.programs, "the start of the job")
    for done, scheduler in enumerate(stage.schedulers):
        if done:
            assert isinstance(asks.upgrade(), Refused)
        assert f"at most {MOST[1]} at feature level 1" in asks.large().message
        restarted(stage, scheduler, NEW)
    restarted(stage, stage.schedulers[0], OLD)  # there is a way back
    assert levels(stage) == [1] * 3
    restarted(stage, stage.schedulers[0], NEW)
    assert f"at most {MOST[1]} at feature level 1" in asks.large().message
    assert asks.upgrade() == AdminApplied(True)
    stage.until(lambda: levels(stage) == [NEWEST] * 3, "the newer level everywhere")
    assert "feature level" not in asks.large().message
    assert stage.comes(lambda: stage.end("long") == "succeeded", 80), "the job ran on"
    assert len(stage.programs) == 1 and stage.halts == [] and stage.violations == []


@scenario(
    40,
    "A scheduler that does not answer keeps the level, whatever it has said before: it may come"
    " back with an older build.",
    SILENT_COUNTS,
    SAID_FOR_EVER,
)
def test_a_scheduler_is_away_when_the_level_is_to_rise() -> None:
    stage = Stage(level=1)
    leader = stage.ready()
    away = stage.others(leader)[0]
    stage.pass_time(1)
    away.crash()
    away.supports = OLD
    stage.pass_time(3)
    assert isinstance(Upgrades(stage).upgrade(), Refused)
    away.start()
    stage.submit("on")
    assert stage.comes(lambda: stage.end("on") == "succeeded" and of_one_mind(stage))
    assert levels(stage) == [1] * 3 and stage.halts == []


@scenario(
    40,
    "A replica of an older build that returns after the raise halts in front of it: it hears"
    " nobody, and its disk stays as it is.",
    HOLDS_BEYOND,
    (HEARS_ON, PLEDGES_BEYOND),
)
def test_an_older_build_returns_after_the_raise() -> None:
    stage = Stage(level=1)
    leader, back = raised(stage)
    returns_too_old(back)
    stored = back.disk.version
    back.start()
    stage.submit("on")
    assert stage.comes(lambda: stage.end("on") == "succeeded"), "two of three work on"
    leader.stop()  # the next one stands, and asks all for their pledges
    stage.pass_time(4)
    assert len(back.halts) == 1 and "this scheduler supports 1" in back.halts[0]
    assert back.disk.version == stored, "it stored nothing"
    leader.start()
    goes_on(stage, back)


@scenario(
    40,
    "A replica of an older build that lacks the raise, and whatever the log had behind it, takes no"
    " snapshot of the newer level.",
    INSTALLS_BEYOND,
)
def test_an_older_build_returns_when_the_log_has_left_it_behind() -> None:
    stage = Stage(level=1)
    _, back = raised_without_one(stage)
    many_entries(stage, back)
    for scheduler in stage.others(back):  # they have what is on their disks, and no more
        restarted(stage, scheduler, NEW)
    returns_too_old(back)
    back.start()
    stage.pass_time(8)
    assert levels_on_disk(back) <= {1}, "it installed nothing"
    assert f"feature level {NEWEST}" in back.replica.status() and back.replica.state.level == 1
    goes_on(stage, back)


@scenario(
    40,
    "A replica of an older build does not begin with a state of the newer level that it finds on"
    " its disk.",
    LOADS_BEYOND,
)
def test_an_older_build_returns_to_a_newer_state() -> None:
    stage = Stage(level=1)
    _, back = raised(stage)
    many_entries(stage, back)
    stage.until(lambda: levels_on_disk(back) == {NEWEST}, "snapshots of the newer level")
    returns_too_old(back)
    back.start()
    stored, index = back.disk.version, back.replica.state.index
    stage.submit("on")
    assert stage.comes(lambda: stage.end("on") == "succeeded")
    assert len(back.halts) == 1 and f"the state here has feature level {NEWEST}" in back.halts[0]
    assert (back.disk.version, back.replica.state.index) == (stored, index)
    goes_on(stage, back)


@scenario(
    40,
    "A replica of an older build pledges to nobody whose state is of the newer level, although no"
    " log tells it of the raise.",
    (PLEDGES_BEYOND, HOLDS_BEYOND),
)
def test_an_older_build_is_asked_for_its_pledge() -> None:
    stage = Stage(level=1)
    leader, back = raised_without_one(stage)
    returns_too_old(back)
    stage.cut(back.name, back.server_name)
    back.start()
    stage.pass_time(1.5)
    (third,) = (each for each in stage.others(leader) if each is not back)
    third.crash()
    assert stage.comes(lambda: not leader.leads, 4), "one alone has no majority"
    assert not stage.comes(lambda: stage.leaders, 6)
    stage.mend()
    third.start()
    goes_on(stage, back)


def returns_too_old(scheduler: SchedulerProcess) -> None:
    """Have a scheduler start next with the older build."""
    if scheduler.alive:
        scheduler.crash()
    scheduler.supports = OLD


def goes_on(stage: Stage, back: SchedulerProcess) -> None:
    """The newer build goes on with what the older one has left."""
    back.crash()
    back.supports = NEW
    back.start()
    assert stage.comes(lambda: levels(stage) == [NEWEST] * 3 and of_one_mind(stage))
    assert stage.violations == []


def raised_without_one(stage: Stage) -> tuple[SchedulerProcess, SchedulerProcess]:
    """Raise the level at a moment at which a follower has just died; return leader and follower."""
    leader = stage.ready()
    back = stage.others(leader)[0]
    back.crash()
    assert Upgrades(stage).upgrade() == AdminApplied(True), "its pledge still counts"
    stage.pass_time(1)
    return leader, back


def many_entries(stage: Stage, back: SchedulerProcess) -> None:
    """Have the log trimmed behind what a replica has now."""
    index = back.replica.state.index
    for number in range(40):
        stage.submit(f"many {number}", 0.1)
    stage.until(
        lambda: all(stage.end(f"many {number}") for number in range(40)), "the end of all", 60
    )
    found = [each.disk.files for each in stage.schedulers if each is not back]
    assert all(files and files[0].last_index > index for files in found)


def levels_on_disk(scheduler: SchedulerProcess) -> set[int]:
    files = scheduler.disk.files
    return {snapshots.decode(file.data)[0].config.level for file in files}
