# SPDX-License-Identifier: Apache-2.0
"""The agent's core under scripts: each file of `node/` is events and the effects they had.

A line `> event` is input, the lines below it are what the core answered. `STOKER_GOLDEN=rewrite`
writes the answers anew; read the difference before committing it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from fakes.orders import CLUSTER, NODE, Seal, start_of

from stoker.agent.jobs import steps
from stoker.agent.jobs.attempt_folders import cgroup_name
from stoker.agent.jobs.lease_judge import Freeze
from stoker.agent.jobs.node_core import NodeCore
from stoker.agent.jobs.steps import Effect, Event
from stoker.mesh.wire import command as wire
from stoker.mesh.wire.command import CommandChain, DesiredState, NodeCommand, Position
from stoker.scheduler.nouns import (
    Action,
    ForgetJob,
    NodeReport,
    Outcome,
    ReleaseJob,
    StartJob,
    StopJob,
    TaskKey,
)

LEASE_NS = 5_000_000_000
BEGIN_S = 1000.0
SCRIPTS = sorted((Path(__file__).parents[1] / "node").glob("*.txt"))


def key_of(word: str) -> TaskKey:
    name, _, placing = word.partition("@")
    parts = [int(part) for part in name.split(".")]
    return TaskKey(*parts, *(1, 0)[len(parts) - 1 :], int(placing or 0))


def action_of(words: list[str]) -> Action:
    match words:
        case ["start", key]:
            return start_of(key_of(key))
        case ["stop", key]:
            return StopJob(*key_of(key), "cancelled by alice")
        case ["move", key]:
            return StopJob(*key_of(key), "moved off n1", signal="USR1", grace_s=600.0)
        case ["evict", key]:
            return StopJob(*key_of(key), "the node was silent", "lost")
        case ["forget", job]:
            return ForgetJob(int(job))
        case ["release", key]:
            return ReleaseJob(*key_of(key))
    raise AssertionError(words)


def actions_of(words: list[str]) -> tuple[Action, ...]:
    return tuple(action_of(words[at : at + 2]) for at in range(0, len(words), 2))


class World:
    """A scheduler's side of the chain, a spawner's answers, one agent, and a clock."""

    def __init__(self) -> None:
        self.at = Position(1, 0, wire.NO_HASH)
        self.stored = Position()
        self.now_s = BEGIN_S
        self.freeze: Freeze | None = None
        self.freezes = 0
        self.nonce = 0
        self.number = 0
        self.last = b""
        self.told: tuple[Outcome, ...] = ()
        self.report: NodeReport | None = None
        self.node = NodeCore(CommandChain(CLUSTER, NODE, [Seal()], self.stored))

    def run(self, line: str) -> list[str]:  # noqa: PLR0911  # one branch per word
        words = line.split()
        if words[0] == "restart":
            self.node = NodeCore(CommandChain(CLUSTER, NODE, [Seal()], self.stored))
            return []
        if words[0] == "term":
            self.at = Position(int(words[1]), self.at.seq, wire.NO_HASH)
            return []
        if words[0] == "freeze":
            self.freezes += 1
            self.freeze = Freeze(self.freezes, int(self.now_s * 1e9))
            self.now_s += 0.001
            return []
        if words[0] == "left":
            return ["yes" if self.node.has_left else "no"]
        if words[0] == "counters":
            return [f"{name} {count}" for name, count in sorted(self.node.counters.items())]
        if words[0] == "phase":
            phase = self.node.phase(key_of(words[1]))
            return [phase.value if phase else "none"]
        if words[0] == "deadline":
            due = self.node.deadline()
            return ["none" if due is None else f"in {due - self.now_s:.2f} s"]
        event = self.event(words[0], words[1:])
        if event is None:
            return []
        effects = self.node.step(event, self.now_s)
        self.carry_out(effects)
        return [self.show(effect) for effect in effects]

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, steps.Persist):
                self.stored = effect.position
            elif isinstance(effect, steps.RequestState):
                self.nonce = effect.request.nonce
            elif isinstance(effect, steps.Thaw) and effect.until_ns > self.now_s * 1e9:
                self.freeze = None
            elif isinstance(effect, steps.SendOutcomes):
                self.number, self.told = effect.number, effect.outcomes
            elif isinstance(effect, steps.SayHello):
                self.report = effect.report

    def event(self, what: str, words: list[str]) -> Event | None:  # noqa: PLR0911, PLR0912
        if what in ("command", "lost-command", "forged-command"):
            return self.command(what, actions_of(words))
        if what == "desired":
            return steps.StateReceived(self.desired(words))
        if what == "lease":
            expiry_ns = int(self.now_s * 1e9) + LEASE_NS
            return steps.LeaseRenewed(expiry_ns, self.at, self.freeze)
        match [what, *words]:
            case ["again"]:
                return steps.CommandReceived(self.last)
            case ["report", name]:
                self.report = NodeReport(NODE, name, 1, 2000, 1)
                return steps.Reported(self.report)
            case ["leave"]:
                return steps.EndRequested()
            case ["returned", *keys]:
                return steps.Returned(tuple(map(key_of, keys)), 4)
            case ["mesh", "up"]:
                return steps.MeshUp()
            case ["mesh", "down"]:
                return steps.MeshDown()
            case ["greeted", *term]:
                assert self.report
                return steps.Greeted(self.report, int(term[0]) if term else 0)
            case ["not-greeted"]:
                return steps.NotGreeted("nobody there")
            case ["not-answered"]:
                return steps.StateFailed("nobody there")
            case ["taken", *keys]:
                return steps.Taken(tuple(map(key_of, keys)))
            case ["not-taken", key, *state]:
                why = "its folder cannot be made"
                return steps.NotTaken(key_of(key), why, 5, *state)  # type: ignore[arg-type]
            case ["ready", key]:
                return steps.Gathered(key_of(key), key_of(key)[0] * 65536, 7)
            case ["ran", key]:
                return steps.Ran(key_of(key), key_of(key)[0] * 65536, 7)
            case ["ended", key, state, *how]:
                return self.ended(key_of(key), state, how)
            case ["never-started", key, *why]:
                return steps.NeverStarted(key_of(key), 6, " ".join(why))
            case ["fault", *keys]:
                return steps.Faulted(tuple(map(key_of, keys)), "device g: Xid 31", 8)
            case ["settled", key]:
                return steps.TraceSettled(key_of(key))
            case ["spawner", *has]:
                return self.spawner(has)
            case ["committed", *number]:
                return steps.Committed(int(number[0]) if number else self.number)
            case ["committed-in", term]:
                return steps.Committed(self.number, int(term))
            case ["not-committed", *code]:
                return steps.NotCommitted(self.number, "no", code[0] if code else "")
            case ["wait", seconds]:
                self.now_s += float(seconds)
                return steps.NodeTick()
        raise AssertionError((what, words))

    def command(self, what: str, actions: tuple[Action, ...]) -> Event | None:
        seq = self.at.seq + 1
        record = NodeCommand(
            wire.FORMAT, CLUSTER, NODE, self.at.term, seq, self.at.seq, self.at.hash, 9, actions
        )
        body = wire.encode(record)
        self.last = wire.seal_body(body, Seal())
        if what == "forged-command":
            return steps.CommandReceived(bytes([self.last[0] ^ 1]) + self.last[1:])
        self.at = Position(self.at.term, seq, wire.body_hash(body))
        return None if what == "lost-command" else steps.CommandReceived(self.last)

    def desired(self, words: list[str]) -> bytes:
        more = "more" in words
        nonce = self.nonce - 1 if "stale" in words else self.nonce
        words = [word for word in words if word not in ("more", "stale")]
        acts = actions_of([word for word in words if word != "wanted"])
        starts = tuple(act for act in acts if isinstance(act, StartJob))
        stops = tuple(act for act in acts if isinstance(act, StopJob))
        kept = tuple(act.key for act in acts if isinstance(act, StartJob))
        wanted = (*kept, *(() if self.wanted is None else self.wanted))
        released = tuple(act.key for act in acts if isinstance(act, ReleaseJob))
        record = DesiredState(
            wire.FORMAT,
            CLUSTER,
            NODE,
            *self._position(),
            nonce,
            9,
            wanted,
            starts,
            stops,
            more,
            releases=released,
        )
        return wire.seal(record, Seal())

    wanted: tuple[TaskKey, ...] | None = None

    def _position(self) -> tuple[int, int, bytes]:
        return self.at.term, self.at.seq, self.at.hash

    def ended(self, key: TaskKey, state: str, how: list[str]) -> steps.JobEnded:
        outcome = Outcome(*key, key[0] * 65536, state, 8)  # type: ignore[arg-type]
        return steps.JobEnded(outcome, stopped="stopped" in how, traced="traced" in how)

    def spawner(self, has: list[str]) -> steps.SpawnerAttempts:
        expected = self.node.taken()
        return steps.SpawnerAttempts(tuple(map(self.has, has)), expected, 5)

    def has(self, word: str) -> steps.SpawnerAttempt:
        name, _, state = word.partition(":")
        key = key_of(name)
        decision = key[0] * 65536
        if state == "running":
            return steps.SpawnerAttempt(key, decision, steps.Ran(key, decision, 7))
        if state == "ready":
            return steps.SpawnerAttempt(key, decision, steps.Gathered(key, decision, 7))
        if state == "never":
            return steps.SpawnerAttempt(key, decision, steps.NeverStarted(key, 6))
        if state:
            return steps.SpawnerAttempt(key, decision, self.ended(key, state, []))
        return steps.SpawnerAttempt(key, decision)

    def show(self, effect: Effect) -> str:  # noqa: PLR0911, PLR0912  # one branch per effect
        match effect:
            case steps.SayHello(report):
                return f"hello boot={report.boot_id}" + (" refuses jobs" if report.drain else "")
            case steps.RequestState(ask):
                at = ask.position
                return f"ask at={at.term}/{at.seq} have={names(ask.have)}"
            case steps.Persist(position):
                return f"persist {position.term}/{position.seq}"
            case steps.StartAttempts(starts):
                return f"start {names(s.key for s in starts)}"
            case steps.ReleaseAttempts(keys):
                return f"release {names(keys)}"
            case steps.StopAttempt(key, reason, signal, grace_s):
                saves = f", {signal} and {grace_s:g} s" if signal and grace_s is not None else ""
                return f"stop {names([key])} ({reason}{saves})"
            case steps.Settle(key):
                return f"settle {names([key])}"
            case steps.SendOutcomes(number, outcomes):
                told = ", ".join(
                    f"{names([o.key])} {o.state}" + (f" ({o.reason})" if o.reason else "")
                    for o in outcomes
                )
                return f"tell #{number}: {told}"
            case steps.KeepReturned(keys):
                return f"keep {names(keys)}"
            case steps.Acknowledge(keys):
                return f"acknowledge {names(keys)}"
            case steps.DropFolder(job):
                return f"forget {job}"
            case steps.Thaw(epoch, _):
                return f"thaw #{epoch}"
            case steps.LogNote(text):
                return f"note: {text}"


def names(keys: Iterable[TaskKey]) -> str:
    """`7.1` is task 0 of attempt 1 of job 7, `7.1.2` its task 2, `7.1@4` what entry 4 placed."""
    return " ".join(map(name_of, keys)) or "-"


def name_of(key: TaskKey) -> str:
    return cgroup_name(key).removesuffix(".0") + (f"@{key.placing}" if key.placing else "")


def play(script: str) -> str:
    """The script again, with the answers of this run."""
    world, lines = World(), []
    for line in script.splitlines():
        if line.startswith("> wanted"):
            world.wanted = tuple(map(key_of, line.split()[2:]))
            lines.append(line)
        elif line.startswith("> "):
            lines += [line, *(f"  {answer}" for answer in world.run(line[2:]))]
        elif not line.startswith("  "):
            lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    script = path.read_text()
    answer = play(script)
    if os.environ.get("STOKER_GOLDEN") == "rewrite":
        path.write_text(answer)
        return
    assert answer == script


def test_every_script_is_found() -> None:
    assert len(SCRIPTS) >= 10
