# SPDX-License-Identifier: Apache-2.0
"""The faults that a world makes by itself: what it kills, stops, cuts off and sets wrong, and when.

Owns the end of all faults: `heal` leaves every process running, every link whole and every clock
going on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from stoker.agent.sim.fault_pace import FaultPace, Wait
from stoker.agent.sim.node_process import NodeProcess
from stoker.mesh.sim import stream_faults
from stoker.mesh.sim.model_stream import NO_LEADER
from stoker.mesh.sim.scheduler_faults import SchedulerFaults
from stoker.mesh.sim.scheduler_process import SchedulerProcess, Surroundings
from stoker.mesh.sim.timeline import MS, SECOND

LOG_STOPS_NS = 14 * SECOND
"""The time between two faults that stop the log, each of which lasts 4 to 16 s: nothing is found in
a log that never works."""
ON = 0.6
"""The probability that a seed has a kind of fault at all."""
SCHEDULER_KINDS = 3
"""A seed has so many kinds of faults of schedulers, each of which may cost an election."""


class FaultPlan:
    """The faults of one seed."""

    def __init__(
        self,
        around: Surroundings,
        schedulers: list[SchedulerProcess],
        nodes: list[NodeProcess],
        until_ns: int,
        *,
        few: bool = False,
    ) -> None:
        """`few` is as in `SchedulerFaults`."""
        self.counts: Counter[str] = Counter()
        """The number of faults of each kind."""
        self._around = around
        self._schedulers = schedulers
        self._nodes = nodes
        self._until_ns = until_ns
        self._log_works_ns = 0
        self._chance = around.chance
        kinds = self._kinds()
        self._on = [kind for kind in kinds if around.chance.random() < ON] or list(kinds)[:3]
        if len(schedulers) > 1:
            more = SchedulerFaults(around, schedulers, until_ns, few=few).kinds()
            self._on += around.chance.sample(list(more), SCHEDULER_KINDS)
            kinds |= more
        self._make = kinds
        self._weak = around.stream.faults
        """The weaknesses of the log in a spell of faults."""
        self._pace = FaultPace(around.chance)
        self._plan(self._pace.first())

    def _kinds(self) -> dict[str, Callable[[], None]]:
        """Return what makes each kind of fault."""
        kinds: dict[str, Callable[[], None]] = {
            "scheduler_crash": self._crash_scheduler,
            "scheduler_pause": self._pause_scheduler,
            "agent_crash": self._crash_agent,
            "agent_dies_in_batch": self._crash_agent_in_batch,
            "agent_pause": self._pause_agent,
            "power_loss": self._lose_power,
            "clock_step": self._step_clock,
            "cut": self._cut,
            "isolation": self._isolate,
            "server_crash": self._crash_server,
        }
        if len(self._around.stream.servers) > 1:
            kinds["election"] = self._elect
            kinds["stale_copy"] = self._stand_still
        return kinds

    def _plan(self, wait: Wait) -> None:
        timeline = self._around.timeline
        if timeline.now + wait.fault_ns < self._until_ns:
            timeline.after(wait.fault_ns, self._happen, None)
        if wait.calm_ns is not None:
            timeline.after(wait.calm_ns, self._calm, wait.ends)

    def _happen(self, _: None) -> None:
        if self._around.timeline.now < self._until_ns:
            self._around.stream.faults = self._weak
            kind = self._chance.choice(self._on)
            self.counts[kind] += 1
            self._make[kind]()
            self._plan(self._pace.next())

    def _calm(self, ends: bool) -> None:
        """Begin a calm, which shows less of the log's weaknesses. If it ends the spell's faults,
        it mends links and lets go on what was stopped; servers and power return by themselves."""
        if self._around.timeline.now >= self._until_ns:
            return
        self._around.stream.faults = stream_faults.calmed(self._weak)
        if ends:
            self._around.network.mend_all()
            for scheduler in self._schedulers:
                scheduler.go_on()
            for node in self._nodes:
                node.go_on()
                _restart(node)

    def _later(self, low_ms: int, high_ms: int, do: Callable[[None], None]) -> None:
        self._around.timeline.after(self._chance.randint(low_ms, high_ms) * MS, do, None)

    # --- processes --------------------------------------------------------------------------------

    def _crash_scheduler(self) -> None:
        one = self._chance.choice(self._schedulers)
        if one.alive:
            one.crash()
            self._later(200, 3000, lambda _: one.start() if not one.alive else None)

    def _pause_scheduler(self) -> None:
        """Stop a scheduler, often the leader: its lease answers are on their way just then."""
        leads = [each for each in self._schedulers if each.leads]
        one = self._chance.choice(
            leads if leads and self._chance.random() < 0.6 else self._schedulers
        )
        if one.alive and not one.paused:
            one.pause(clock=self._chance.random() < 0.5)
            self._later(100, 9000, lambda _: one.go_on())

    def _crash_agent(self) -> None:
        """Kill an agent, or stop it in order every other time."""
        node = self._chance.choice(self._nodes)
        if node.alive:
            if self.counts["agent_crash"] % 2:
                node.crash()
            elif not node.leaves:
                self.counts["agent_leaves"] += 1
                node.leave()
            self._later(100, 3000, lambda _: _restart(node))

    def _crash_agent_in_batch(self) -> None:
        node = self._chance.choice(self._nodes)
        if node.alive:
            node.dies_in = self._chance.randint(1, 4)
            self._later(1500, 4000, lambda _: _restart(node))

    def _pause_agent(self) -> None:
        node = self._chance.choice(self._nodes)
        if node.alive and not node.paused:
            node.pause()
            self._later(100, 12_000, lambda _: node.go_on())

    def _lose_power(self) -> None:
        node = self._chance.choice(self._nodes)
        if node.powered:
            node.power_off()
            self._later(1000, 12_000, lambda _: node.boot_machine())

    def _step_clock(self) -> None:
        hosts = [(each.name, each.clock) for each in self._schedulers]
        hosts += [(each.name, each.clock) for each in self._nodes]
        name, clock = self._chance.choice(hosts)
        by = int((self._chance.random() - 0.5) * 2 * 10 ** self._chance.randint(0, 4) * SECOND)
        clock.step(by)
        self._around.story.tell("the clock of {} is set by {:.1f} s", name, by / SECOND)

    # --- links and servers ------------------------------------------------------------------------

    def _endpoints(self) -> list[str]:
        servers = [server.name for server in self._around.stream.servers]
        return [*(s.name for s in self._schedulers), *(n.name for n in self._nodes), *servers]

    def _cut(self) -> None:
        sender, receiver = self._chance.sample(self._endpoints(), 2)
        network = self._around.network
        network.cut(sender, receiver)
        self._around.story.tell("nothing goes from {} to {}", sender, receiver)
        self._later(500, 9000, lambda _: network.mend(sender, receiver))

    def _isolate(self) -> None:
        names, network = self._endpoints(), self._around.network
        one = self._chance.choice(names)
        inward, outward = self._chance.choice(((True, True), (True, False), (False, True)))
        cuts = [(other, one) for other in names if inward and other != one]
        cuts += [(one, other) for other in names if outward and other != one]
        for cut in cuts:
            network.cut(*cut)
        way = "in or out" if inward and outward else "in" if inward else "out"
        self._around.story.tell("nothing gets {} of {}", way, one)

        def mend(_: None) -> None:
            for cut in cuts:
                network.mend(*cut)

        self._later(500, 12_000, mend)

    def _crash_server(self) -> None:
        stream = self._around.stream
        number = self._chance.randrange(len(stream.servers))
        if stream.servers[number].up and (number != stream.leader or self._log_may_stop()):
            stream.crash(number)
            self._around.story.tell("{} is killed", stream.servers[number].name)
            self._later(300, 3000, lambda _: stream.restart(number))

    def _elect(self) -> None:
        if self._around.stream.leader != NO_LEADER and self._log_may_stop():
            self._around.stream.elect()

    def _log_may_stop(self) -> bool:
        """True if the log may stop now: it works for a while between two stops."""
        now = self._around.timeline.now
        if now < self._log_works_ns:
            return False
        self._log_works_ns = now + LOG_STOPS_NS
        return True

    def _stand_still(self) -> None:
        stream = self._around.stream
        number = self._chance.randrange(len(stream.servers))
        if stream.faults.stale:
            stream.stand_still(number, self._chance.randint(500, 8000) * MS)

    # --- the end ----------------------------------------------------------------------------------

    def heal(self) -> None:
        """End every fault."""
        around = self._around
        around.network.mend_all()
        around.watch.ambush.clear()
        around.network.faults = type(around.network.faults)()
        around.stream.heal()
        for scheduler in self._schedulers:
            scheduler.go_on()
            scheduler.dies_in = None
            scheduler.disk.full = False
            if not scheduler.alive:
                scheduler.start()
        for node in self._nodes:
            node.go_on()
            node.dies_in = None
            _restart(node)
        around.story.tell("all faults are over")


def _restart(node: NodeProcess) -> None:
    """Start what does not run of a node; one without power boots by its own plan."""
    if node.powered and (node.leaves or not node.alive):
        node.start_agent()
