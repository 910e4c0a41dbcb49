# SPDX-License-Identifier: Apache-2.0
"""Stories of leases: how long a node's jobs may run without a word of the leader, and no longer."""

from __future__ import annotations

from stoker.mesh.sim.timeline import SECOND
from tests.agent.sim.mutants.planting import Mutant
from tests.agent.sim.scenario import scenario
from tests.agent.sim.stage import Gate, Stage

JUDGE = "stoker.agent.jobs.lease_judge"
RULE = "stoker.agent.jobs.lease_rule"
CORE = "stoker.agent.jobs.node_core"

FROM_ARRIVAL = Mutant(
    "from-arrival", JUDGE, "LeaseJudge._judge",
    "expiry_ns = stamp_ns + answer.lease_ms", "expiry_ns = now_ns + answer.lease_ms",
    "a lease counts from the stamp of the node's own request",
)  # fmt: skip


def is_lease(message: tuple[str, bytes]) -> bool:
    """Return True for a lease answer on its way to a node."""
    return message[0] == "lease"


@scenario(
    10,
    "A lease counts from the moment of the node's own request, so that no delay of the answer"
    " lengthens it.",
    FROM_ARRIVAL,
)
def test_a_lease_answer_that_comes_late_lets_nothing_run_longer() -> None:
    stage = Stage()
    stage.ready()
    stage.submit("job", run_s=60)
    stage.until(lambda: stage.runs("job"), "the start of the job")
    late = Gate(stage.node, "take", is_lease)
    stage.until(lambda: late.seen, "a lease answer")
    requested_ns = stage.timeline.now
    stage.cut(stage.node.name, *(each.name for each in stage.schedulers))
    stage.timeline.run(requested_ns + 3 * SECOND)
    late.deliver(late.seen[0])
    stage.timeline.run(requested_ns + 53 * SECOND // 10)
    assert stage.node.lease.frozen, "the lease ends as if the answer had come at once"
    assert stage.violations == []


NO_LEASE_STARTS = Mutant(
    "no-lease-starts", RULE, "LeaseRule.may_start",
    "return known and now_ns < self._until_ns", "return known",
    "nothing starts without a valid lease",
)  # fmt: skip
NO_LEASE_RUNS = Mutant(
    "no-lease-runs", "stoker.agent.sim.node_process", "decide",
    '"nothing" if valid', '"nothing" if valid or lease.expiry_ns == 0',
    "no lease means frozen",
)  # fmt: skip


@scenario(
    12,
    "Without a lease jobs are frozen from the start of the machine, and nothing is started.",
    (NO_LEASE_STARTS, NO_LEASE_RUNS),
)
def test_a_node_that_never_had_a_lease_starts_nothing() -> None:
    stage = Stage()
    stage.ready()
    stage.node.power_off()
    gates = [Gate(each, "take_lease_request") for each in stage.schedulers]
    stage.node.boot_machine()
    stage.until(lambda: stage.node.core.caught_up, "the node's state")
    stage.submit("job")
    stage.taken("job")
    stage.pass_time(6)
    assert not stage.runs("job"), "nothing runs that nobody could freeze in time"
    for gate in gates:
        gate.shut = False
    assert stage.comes(lambda: stage.end("job") == "succeeded"), "it runs under its first lease"
    assert stage.violations == [] and stage.halts == []


ANY_NONCE = Mutant(
    "any-nonce", JUDGE, "LeaseJudge._judge",
    "stamp_ns = self._outstanding.get(grant.nonce)", "stamp_ns = grant.stamp_ns",
    "an answer counts for an outstanding request of this process alone",
)  # fmt: skip
ANY_INSTANCE = Mutant(
    "any-instance", JUDGE, "LeaseJudge._own",
    "if (grant.node, grant.instance) == own", "if grant.node == own[0]",
    "a grant is for one process of the agent",
)  # fmt: skip


@scenario(
    27,
    "A lease answer counts only for an outstanding request of this very process, whose nonce it"
    " repeats.",
    (ANY_NONCE, ANY_INSTANCE),
)
def test_an_answer_to_an_earlier_boot_gives_no_lease() -> None:
    stage = Stage()
    stage.ready()
    gate = Gate(stage.node, "take", is_lease)
    stage.until(lambda: gate.seen, "a lease answer")
    old, heard_ns = gate.seen[-1], stage.node.clock.boot()
    stage.node.power_off()
    stage.cut(stage.node.name, *(each.name for each in stage.schedulers))
    stage.pass_time(1)
    stage.node.boot_machine()
    stage.until(lambda: stage.node.clock.boot() > heard_ns, "the same time of the new clock")
    gate.deliver(old)
    assert not stage.has_lease(stage.node), "the answer belongs to a clock that began anew"
    stage.pass_time(1)
    assert stage.node.lease.frozen


@scenario(
    28,
    "A start that is carried out late, after the lease has ended, starts nothing.",
    NO_LEASE_STARTS,
)
def test_a_start_that_comes_after_the_lease_starts_nothing() -> None:
    stage = Stage()
    stage.ready()
    late = Gate(stage.node, "take")
    stage.submit("job", run_s=2)
    stage.until(lambda: any(what == "command" for ((what, _),) in late.seen), "the start")
    stage.cut(stage.node.name, *(each.name for each in stage.schedulers))
    stage.until(lambda: stage.node.lease.frozen, "the end of the lease")
    for call in tuple(late.seen):
        late.deliver(call)
    stage.pass_time(1)
    assert stage.node.spawner.attempts() == (), "nothing waits behind the freeze"
    late.shut = False
    stage.mend()
    assert stage.comes(lambda: stage.end("job") == "succeeded"), "it runs once, under a new lease"
    assert stage.violations == [] and stage.halts == []


UNMET_SPAWNER = Mutant(
    "unmet-spawner", CORE, "NodeCore._may_greet",
    "self._connected and self._met_spawner", "self._connected",
    "a new agent learns what runs before it says what is gone",
)  # fmt: skip


@scenario(
    31,
    "A new agent says that an attempt is gone only after its spawner has told what runs.",
    UNMET_SPAWNER,
)
def test_a_new_agent_does_not_take_a_running_job_for_lost() -> None:
    stage = Stage(nodes=2)
    stage.ready()
    stage.submit("job", run_s=8, retries=1)
    stage.until(lambda: stage.runs("job"), "the start of the job")
    stage.pass_time(1)
    node = stage.runner
    node.crash()
    list_attempts = Gate(node, "_list_attempts")
    node.start_agent()
    stage.pass_time(1.5)
    list_attempts.shut = False
    assert stage.comes(lambda: stage.end("job") == "succeeded"), "the job ends"
    assert len(stage.programs) == 1, "it was not started again beside itself"
    assert stage.violations == [] and stage.halts == []


NEVER_FREEZES = Mutant(
    "never-freezes", "stoker.agent.sim.node_process", "decide",
    'return "nothing" if valid else "freeze"', 'return "nothing"',
    "the watchdog freezes the jobs when the lease ends",
)  # fmt: skip


@scenario(
    30,
    "The watchdog, a process of its own, freezes the jobs of a dead agent when the lease ends.",
    NEVER_FREEZES,
)
def test_jobs_are_frozen_after_the_agent_died() -> None:
    stage = Stage()
    stage.ready()
    stage.submit("job", run_s=10)
    stage.until(lambda: stage.runs("job"), "the start of the job")
    stage.node.crash()
    assert stage.comes(lambda: stage.node.lease.frozen, 5.2), "nothing runs that nobody can stop"
    stage.pass_time(10)
    assert stage.node.spawner.running == 1, "it is frozen, not ended"
    stage.node.start_agent()
    assert stage.comes(lambda: stage.end("job") == "succeeded"), "it goes on under a new lease"
    assert len(stage.programs) == 1
    assert stage.violations == [] and stage.halts == []
