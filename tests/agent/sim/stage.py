# SPDX-License-Identifier: Apache-2.0
"""A small simulated cluster in which nothing goes wrong but what a test does to it.

The schedulers, agents and lease rules are the shipped ones. Owns the difference between a test that
waits for its story to go on (`until`) and one that looks for an effect (`comes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stoker.agent.sim.figures import Shape
from stoker.agent.sim.node_process import NodeProcess
from stoker.agent.sim.world import World
from stoker.mesh.log.feature_level import BUILD, FeatureRange
from stoker.mesh.replica import events
from stoker.mesh.sim.log_audit import LogAudit
from stoker.mesh.sim.scheduler_disk import SchedulerDisk
from stoker.mesh.sim.scheduler_process import (
    SchedulerAnswer,
    SchedulerProcess,
    SchedulerRequest,
)
from stoker.mesh.sim.timeline import MS, SECOND
from stoker.native.errors import NotFound, StokerError
from stoker.scheduler.book import Job
from stoker.scheduler.nouns import MILLI, JobSpec, Owner
from tests.agent.sim.scenario import Unplayable

STEP_NS = 5 * MS
AGAIN_NS = SECOND
ANN, BOB = "ann", "bob"


class Gate:
    """The calls of one method of one process that `picks` chooses; while `shut`, none is made."""

    def __init__(
        self, target: Any, method: str, picks: Callable[..., bool] = lambda *_: True
    ) -> None:
        self.shut = True
        self.seen: list[tuple[Any, ...]] = []
        self._picks = picks
        self._through = getattr(target, method)
        setattr(target, method, self._call)

    def _call(self, *arguments: Any) -> None:
        picked = self._picks(*arguments)
        if picked:
            self.seen.append(arguments)
        if not (picked and self.shut):
            self._through(*arguments)

    def deliver(self, call: tuple[Any, ...]) -> None:
        """Make a call that was seen, whether or not it was made then."""
        self._through(*call)


class Stage:
    """The cluster, with a log server for each scheduler, and its users."""

    def __init__(
        self,
        schedulers: int = 3,
        nodes: int = 1,
        *,
        seed: int = 1,
        spares: int = 0,
        level: int = BUILD.newest,
        supports: FeatureRange = BUILD,
        grows: bool = False,
    ) -> None:
        servers = schedulers + spares if grows else schedulers
        shape = Shape(schedulers, servers, nodes, 0, 0, spares, grows=grows)
        self.world = World(seed, shape, faults=False, story=True, level=level, supports=supports)
        self.timeline = self.world.timeline
        self.schedulers, self.nodes = self.world.schedulers, self.world.nodes
        self.answers: dict[str, list[Any]] = {}
        """The answers to each request by its key, those that say that it was not taken included."""
        self._starts = Gate(self.world.runs, "begins")
        self._starts.shut = False
        self._numbers = 0
        self.world.begin()

    @property
    def programs(self) -> list[tuple[str, str]]:
        """Return each start of a program as (node, key of its request)."""
        return [(node, start.spec.argv[1]) for node, start in self._starts.seen]

    # --- time -------------------------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.timeline.run(self.timeline.now + int(seconds * SECOND))

    def comes(self, condition: Callable[[], object], seconds: float = 20) -> bool:
        """Pass time until this is true; False if it is not by then."""
        end = self.timeline.now + int(seconds * SECOND)
        while not condition():
            if self.timeline.now >= end:
                return False
            self.timeline.run(self.timeline.now + STEP_NS)
        return True

    def until(self, condition: Callable[[], object], what: str, seconds: float = 20) -> None:
        """Pass time until the story has come to this point."""
        if not self.comes(condition, seconds):
            raise Unplayable(f"{what} did not come:\n" + "\n".join(self.world.story.lines[-20:]))

    # --- schedulers -------------------------------------------------------------------------------

    @property
    def leaders(self) -> list[SchedulerProcess]:
        """Every scheduler that leads, in its own opinion."""
        return [each for each in self.schedulers if each.leads]

    def leader(self, but: SchedulerProcess | None = None) -> SchedulerProcess:
        """Pass time until a scheduler leads, other than `but`; return it."""
        self.until(lambda: [each for each in self.leaders if each is not but], "a leader")
        return next(each for each in self.leaders if each is not but)

    @staticmethod
    def takes_requests(scheduler: SchedulerProcess) -> bool:
        """True if a scheduler takes the requests of users and nodes now."""
        right = scheduler.alive and scheduler.replica.right
        return bool(right) and right.may_answer(scheduler.clock.boot())

    def others(self, leader: SchedulerProcess) -> list[SchedulerProcess]:
        """Return all schedulers but one."""
        return [each for each in self.schedulers if each is not leader]

    def let_lead(self, chosen: SchedulerProcess, voter: SchedulerProcess) -> None:
        """Have `chosen` lead with the vote of `voter`, while no third scheduler runs."""
        self.pass_time(0.1)  # what the last leader sent has arrived
        voter.pause(clock=True)
        self.until(lambda: chosen.replica.role == "pledging", f"{chosen.name} as a candidate")
        voter.go_on()

    @property
    def halts(self) -> list[str]:
        """The reasons of all schedulers that halted."""
        return [why for each in self.schedulers for why in each.halts]

    @staticmethod
    def lose_disk(scheduler: SchedulerProcess) -> None:
        """Let a scheduler that does not run lose all that it stored."""
        scheduler.disk = SchedulerDisk()
        scheduler._known_tail = 0

    # --- links and the log ------------------------------------------------------------------------

    def cut(self, one: str, *others: str) -> None:
        """Cut all messages between one and the others."""
        for other in others:
            self.world.network.cut(one, other)
            self.world.network.cut(other, one)

    def mute(self, sender: str, receivers: Sequence[SchedulerProcess]) -> None:
        """Cut what goes from one to these schedulers; their messages still arrive."""
        for receiver in receivers:
            self.world.network.cut(sender, receiver.name)

    def mend(self) -> None:
        """End all cuts."""
        self.world.network.mend_all()

    def lose_entries(self, count: int) -> None:
        """Let the log lose its newest entries, which it had acknowledged."""
        stream = self.world.stream
        stream._cut_back(stream.last - count)

    def restore_log(self, kept: int) -> None:
        """Put the log back to what it was after `kept` entries, as from a backup, and have the only
        scheduler begin with nothing else. The auditors know no more than this log."""
        (only,) = self.schedulers
        only.crash()
        self.lose_disk(only)
        self.lose_entries(self.world.stream.last - kept)
        audit = self.world.audit
        found = audit.violations
        vars(audit).update(vars(LogAudit(audit._genesis)), violations=found)
        self.world.runs.begun.clear()
        only.start()

    def depose_log_server(self, scheduler: SchedulerProcess, behind: int = 0) -> None:
        """Let the server of a scheduler go on as a deposed leader of the log, which alone
        acknowledges and shows what is appended there, `behind` entries behind the others."""
        stream = self.world.stream
        server = stream.servers[scheduler.server]
        server.fork, server.fork_base = [], stream.last - behind
        stream.leader = next(n for n in range(len(stream.servers)) if n != scheduler.server)

    def restore_log_server(self, scheduler: SchedulerProcess) -> None:
        """Let the server of a scheduler learn that it was deposed; it drops what it alone has."""
        self.world.stream.servers[scheduler.server].fork = None

    # --- users and jobs ---------------------------------------------------------------------------

    def submit(
        self,
        key: str,
        run_s: float = 0.5,
        *,
        user: str = ANN,
        to: Sequence[SchedulerProcess] | None = None,
        again: bool = True,
        **options: Any,
    ) -> None:
        """Submit a job; the request is repeated until it was taken, unless `again` is false."""
        options = {"gpu_milli": MILLI, "trace": "off", **options}
        spec = JobSpec(("job", key, str(int(run_s * 1000)), "succeeded"), **options)
        owner, name = Owner(user, 1000, 1000), key.encode().ljust(16, b".")
        self.answers.setdefault(key, [])
        chosen = self.schedulers if to is None else to
        self._numbers += 1

        def make(token: Any) -> events.Event:
            return events.JobSubmitted(token, owner, name, spec)

        def take(answered: SchedulerAnswer) -> None:
            self._answered(key, answered.value)

        message = SchedulerRequest(user, self._numbers, make, take)

        def send(_: None) -> None:
            if self.told(key) is None:
                for scheduler in chosen:
                    self.world.network.post(user, scheduler.name, scheduler.take, message)
                if again:
                    self.timeline.after(AGAIN_NS, send, None)

        send(None)

    def _answered(self, key: str, value: Any) -> None:
        self.answers[key].append(value)
        if isinstance(value, Job):
            self.world.audit.acknowledged_job(key, value.job)
            self.world.runs.told_job(key, value.job)

    def told(self, key: str) -> int | None:
        """Return the job of a request, as its user was told; None if it was not."""
        return self.world.runs.acknowledged.get(key)

    def taken(self, key: str) -> int:
        """Pass time until the user was told a job, and return it."""
        self.until(lambda: self.told(key), f"the answer to {key}")
        job = self.told(key)
        assert job is not None
        return job

    def refusals(self, key: str) -> list[StokerError]:
        """Return the answers that say that a request was not taken."""
        return [each for each in self.answers[key] if isinstance(each, StokerError)]

    def keeps(self, key: str) -> bool:
        """True if the leader has the job that the user was told, with the program it submitted."""
        job = self.told(key)
        for scheduler in self.leaders:
            try:
                found = scheduler.replica.state.book.get(job or 0)
            except NotFound:
                return False
            return found.decoded_spec().argv[1] == key
        return False

    def end(self, key: str) -> str | None:
        """Return the final state of a job by its request; None while it is not over."""
        return self.world.audit.ended.get(self.told(key) or 0)

    def runs(self, key: str) -> bool:
        """True if the program of a request has begun anywhere."""
        return any(found == key for _, found in self.programs)

    # --- nodes ------------------------------------------------------------------------------------

    @property
    def node(self) -> NodeProcess:
        """The first node."""
        return self.nodes[0]

    @property
    def runner(self) -> NodeProcess:
        """The first node with a job."""
        found = next((each for each in self.nodes if each.spawner.running), None)
        if found is None:
            raise Unplayable("no node runs a job")
        return found

    def ready(self) -> SchedulerProcess:
        """Pass time until a scheduler leads and every node has a lease; return the leader."""
        leader = self.leader()
        for node in self.nodes:
            self.until(lambda node=node: node.core.caught_up, f"the state of {node.name}")
            self.until(lambda node=node: not node.lease.frozen, f"the lease of {node.name}")
        return leader

    def has_lease(self, node: NodeProcess) -> bool:
        """True while jobs of a node may run by its lease file."""
        return node.lease.valid(node.clock.boot())

    @property
    def violations(self) -> list[str]:
        """Everything that the auditors found."""
        return [*self.world.audit.violations, *self.world.runs.violations]
