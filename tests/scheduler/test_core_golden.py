# SPDX-License-Identifier: Apache-2.0
"""Golden scripts of the core: what a reader asks, and everything that the core then says.

A script is `tests/golden/core/*.txt`: commands at the left margin, the trace indented under the
command that caused it. `STOKER_GOLDEN=rewrite` writes the traces anew; read the diff. Commands:

    limits name=value ...            the first line; the others are the defaults
    now NS                           the time of what follows
    node_up, device_set, submit ...  field=value ...: a request, kept for the next propose
    propose [seed=N]                 decide; keeps the batch, shows commands and rejections
    apply                            commit that batch, shows effects
    step [seed=N]                    both
    commit                           commit the kept requests (and places) as if proposed elsewhere
    observe, sample, power, sockets, workload      what the leader is told besides, any order
    explain, job, node, devices, labels, tasks, queue, speeds, due, counters, candidates, restore

Lists are `models=7,8`, options `options=spread_tasks|preemptible`, placements and orders names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import IntFlag
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from stoker.scheduler import effects as eff
from stoker.scheduler import records as rec
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.hints import RequestClass, Sample
from stoker.scheduler.nouns import DeviceShare
from stoker.scheduler.policies import Kind, Option, Order, Placement
from stoker.scheduler.reasons import Reason, reason_of
from stoker.scheduler.wire_names import Measure, Property, Relation

GOLDEN = Path(__file__).parents[1] / "golden" / "core"

RECORDS: dict[str, type[Any]] = {
    "term": rec.Term,
    "node_up": rec.NodeUp,
    "node_down": rec.NodeDown,
    "device_set": rec.DeviceSet,
    "submit": rec.Submit,
    "place": rec.Place,
    "outcome": rec.TaskOutcome,
    "cancel": rec.Cancel,
    "forget": rec.Forget,
    "refused": rec.RefusedRequests,
    "node_label": rec.NodeLabel,
    "node_reserve": rec.NodeReserve,
    "queue_set": rec.QueueSet,
    "quota_set": rec.QuotaSet,
    "usage": rec.DeviceUsage,
    "preempt": rec.Preempt,
    "prefer": rec.Prefer,
    "give_up": rec.GiveUp,
    "device_traits": rec.DeviceTraits,
    "submit_array": rec.SubmitArray,
    "range_end": rec.RangeEnd,
}
NAMES: dict[str, type[Any]] = {"placement": Placement, "order": Order, "measure": Measure}
PLAIN = rec.Submit(0)
"""A request without options; a trace shows how a request differs from it."""
RANGE = 1 << 63
ZEROS = {"request", "command", "device", "exit_code"}
WORDS = {record: word for word, record in RECORDS.items()}
KIND_WORDS = ("", *RECORDS)
DEFAULTS: dict[str, dict[str, Any]] = {
    "node_up": {"boot": 1, "incarnation": 1, "cpu_milli": 8000, "memory_bytes": 1 << 34,
                "devices": 0},
    "submit": {"client": 1},
    "submit_array": {"client": 1},
    "outcome": {"attempt": 1},
    "place": {"attempt": 1, "task": 0, "tasks": 1, "shares": (), "reason": 0, "latency_ns": 0,
              "observations": (), "candidates": 1},
    "prefer": {"attempt": 1},
    "preempt": {"attempt": 1},
    "give_up": {"attempt": 1},
    "usage": {"attempt": 1},
}  # fmt: skip


def name_of(code: int) -> str:
    known = reason_of(code)
    return known.name.lower() if isinstance(known, Reason) else str(known)


def shown(value: Any) -> str:
    if isinstance(value, rec.Condition):
        sign = {Relation.IS: "=", Relation.LEAST: ">=", Relation.MOST: "<="}[
            Relation(value.relation)
        ]
        rank = f"{value.rank}:" if value.rank else ""
        return f"{rank}{Property(value.property).name.lower()}{sign}{value.value}"
    if isinstance(value, bytes):
        return value.rstrip(b"\0").decode()
    if isinstance(value, tuple):
        return ",".join(map(shown, value)) or "-"
    if isinstance(value, DeviceShare):
        return f"{value.index}:{value.milli}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


FLAGS: dict[str, type[IntFlag]] = {"options": Option, "kind": Kind, "kinds": Kind}


def named_number(field: str, value: int) -> str:
    """Reasons, states and choices by name."""
    if field in ("reason", "place_reason"):
        return name_of(value)
    if field == "state" and isinstance(value, int):
        return rec.STATES[value - 1]
    if field in NAMES and value and value in list(NAMES[field]):
        return str(NAMES[field](value).name).lower()
    if field in FLAGS and value and isinstance(value, int):
        return "|".join(str(one.name).lower() for one in FLAGS[field] if one & value)
    if field == "limit_milli" and value == rec.NO_LIMIT:
        return "no_limit"
    return shown(value)


def jobs_shown(value: int | tuple[int, ...]) -> str:
    """Jobs, and ranges such as range2."""
    numbers = value if isinstance(value, tuple) else (value,)
    return ",".join(str(n) if n < RANGE else f"range{n - RANGE}" for n in numbers)


def asked(request: rec.Submit, beside: Any) -> dict[str, Any]:
    """Options of the request beyond a plain one and beyond those already in `beside`."""
    fields = request._asdict().items()
    plain = PLAIN._asdict()
    return {k: v for k, v in fields if v != plain[k] and not hasattr(beside, k)}


def line(word: str, record: Any, **named: str) -> str:
    """A named tuple as `word field=value ...`, reasons by name, without what is absent or 0."""
    shown_fields = []
    fields = record._asdict()
    if isinstance(fields.get("request"), rec.Submit):
        fields |= asked(fields.pop("request"), record)
    for field, value in fields.items():
        followed = field in ("after", "job") and value
        text = named.get(field, jobs_shown(value) if followed else named_number(field, value))
        if field in ("kind", "kinds") and value == Kind.GPU and field not in named:
            continue
        if value is None or text in ("", "-", "none") or (text == "0" and field not in ZEROS):
            continue
        shown_fields.append(f"{field}={text}")
    return " ".join([word, *shown_fields])


def parsed(word: str, words: list[str]) -> Any:
    fields: dict[str, Any] = dict(DEFAULTS.get(word, {}))
    for name, _, value in (w.partition("=") for w in words):
        alone = word == "range_end" and name == "after"
        fields[name] = parsed_job(value) if alone else parsed_value(name, value)
    return RECORDS[word](**fields)


def parsed_shares(value: str) -> tuple[DeviceShare, ...]:
    pairs = (pair.split(":") for pair in value.split(","))
    return tuple(DeviceShare(int(index), int(milli)) for index, milli in pairs)


def parsed_job(value: str) -> int:
    """A job's number, or a range such as range2."""
    found = value.removeprefix("range")
    return int(found, 0) + (RANGE if found != value else 0)


def parsed_list(value: str) -> tuple[int, ...]:
    return tuple(map(parsed_job, value.split(",")))


def parsed_conditions(value: str) -> tuple[rec.Condition, ...]:
    """Conditions such as driver>=550,arch=41,2:vendor=1; the rank stands before a colon."""
    found = []
    for one in value.split(","):
        rank, _, rest = one.rpartition(":")
        sign = next(sign for sign in (">=", "<=", "=") if sign in rest)
        name, _, number = rest.partition(sign)
        relation = {"=": Relation.IS, ">=": Relation.LEAST, "<=": Relation.MOST}[sign]
        found.append(
            rec.Condition(Property[name.upper()], relation, int(number, 0), int(rank or 0))
        )
    return tuple(found)


def parsed_options(value: str) -> int:
    return int(value) if value.isdigit() else sum(Option[o.upper()] for o in value.split("|"))


def parsed_kinds(value: str) -> int:
    return int(value) if value.isdigit() else sum(Kind[k.upper()] for k in value.split("|"))


SPECIAL: dict[str, Any] = {
    "key": str.encode,
    "shares": parsed_shares,
    "state": rec.STATE_CODES.__getitem__,
    "options": parsed_options,
    "conditions": parsed_conditions,
    **dict.fromkeys(("kind", "kinds"), parsed_kinds),
    **dict.fromkeys(
        ("models", "require", "avoid", "tolerate", "after", "observations"), parsed_list
    ),
}


def parsed_value(name: str, value: str) -> Any:
    if name in SPECIAL:
        return SPECIAL[name](value)
    if name in NAMES and not value.isdigit():
        return NAMES[name][value.upper()].value
    known = {"yes": True, "no": False, "no_limit": rec.NO_LIMIT}
    return known[value] if value in known else int(value, 0)


class Script:
    """Runs one script; each command yields the lines of its trace."""

    def __init__(self) -> None:
        self.core = Core()
        self.now = 0
        self.kept: list[rec.Command] = []
        self.batch = b""

    def run(self, command: str) -> Iterator[str]:
        word, *words = command.split()
        if word in RECORDS:
            self.kept.append(parsed(word, words))
            return
        yield from getattr(self, f"do_{word}")(*words)
        assert self.core.check() == ""

    def do_limits(self, *words: str) -> Iterator[str]:
        fields = {name: int(value) for name, _, value in (w.partition("=") for w in words)}
        self.core = Core(Limits(**fields))
        yield from ()

    def do_now(self, now: str) -> Iterator[str]:
        self.now = int(now)
        yield from ()

    def do_propose(self, seed: str = "seed=0") -> Iterator[str]:
        before = self.core.digest(), self.core._core.memory_digest()
        requests = [c for c in self.kept if not isinstance(c, rec.Place)]
        proposal = self.core.propose(requests, self.now, int(seed[5:]), measure=False)
        assert (self.core.digest(), self.core._core.memory_digest()) == before
        self.kept, self.batch = [], proposal.commands
        for rejected in proposal.rejected:
            yield line("rejected", rejected, kind=KIND_WORDS[rejected.kind])
            yield f"  {rejected.text()}"
        for command in rec.unpack_commands(proposal.commands):
            yield line(WORDS[type(command)], command)
        if proposal.more:
            yield "more"

    def do_apply(self) -> Iterator[str]:
        yield from self.applied(self.batch)
        self.batch = b""

    def applied(self, batch: bytes) -> Iterator[str]:
        for effect in self.core.apply(batch, self.now):
            named = {"kind": KIND_WORDS[effect.kind]} if isinstance(effect, eff.Ignored) else {}
            yield line(type(effect).__name__, effect, **named)

    def do_step(self, seed: str = "seed=0") -> Iterator[str]:
        yield from self.do_propose(seed)
        yield from self.do_apply()

    def do_commit(self) -> Iterator[str]:
        term = self.core.term
        raw = [c.pack() for c in self.kept]
        stamped = [r if r[2] == rec.TERM else r[:8] + pack("<Q", term) + r[16:] for r in raw]
        self.kept = []
        yield from self.applied(b"".join(stamped))

    def do_observe(self, node: str, observation: str, load: str) -> Iterator[str]:
        assert self.core.observe(int(node), int(observation), int(load))
        yield from ()

    def do_sample(self, node: str, device: str, *words: str) -> Iterator[str]:
        fields = {name: float(value) for name, _, value in (w.partition("=") for w in words)}
        sample = Sample(int(fields.pop("id", 0)), **fields)
        assert self.core.observe_device(int(node), int(device), sample)
        yield from ()

    def do_power(self, model: str, idle_w: str, full_w: str) -> Iterator[str]:
        self.core.model_power(int(model), float(idle_w), float(full_w))
        yield from ()

    def do_sockets(self, milli: str, idle_w: str, full_w: str) -> Iterator[str]:
        self.core.cpu_power(int(milli), float(idle_w), float(full_w))
        yield from ()

    def do_workload(self, *words: str) -> Iterator[str]:
        """Classes as weight:gpu_milli:cpu_milli."""
        self.core.workload(RequestClass(*map(int, word.split(":"))) for word in words)
        yield from ()

    def do_candidates(self, job: str) -> Iterator[str]:
        for candidate in self.core.candidates(int(job), self.now):
            yield line("candidate", candidate)

    def do_explain(self, job: str) -> Iterator[str]:
        for explained in self.core.explain(int(job)):
            yield line("because", explained)
            yield f"  {explained.text()}"

    def do_job(self, job: str) -> Iterator[str]:
        info = self.core.job(int(job))
        yield line("job", info) if info else "no such job"

    def do_node(self, node: str) -> Iterator[str]:
        info = self.core.node(int(node))
        yield line("node", info) if info else "no such node"

    def do_devices(self, node: str) -> Iterator[str]:
        for index, device in enumerate(self.core.devices(int(node))):
            yield line(str(index), device)

    def do_tasks(self, node: str) -> Iterator[str]:
        for task in self.core.node_tasks(int(node)):
            yield line("task", task)

    def do_labels(self, node: str) -> Iterator[str]:
        for label in self.core.labels(int(node)):
            yield line("label", label)

    def do_queue(self, queue: str) -> Iterator[str]:
        info = self.core.queue(int(queue), self.now)
        if info is None:
            yield "no such queue"
            return
        yield line("queue", info._replace(quotas=()))
        for quota in info.quotas:
            yield line("  quota", quota)

    def do_speeds(self) -> Iterator[str]:
        for speed in self.core.speeds():
            yield line("speed", speed)

    def do_due(self) -> Iterator[str]:
        yield f"due={self.core.due_ns()}"

    def do_counters(self) -> Iterator[str]:
        yield " ".join(f"{name}={n}" for name, n in self.core.counters().items() if n)

    def do_restore(self) -> Iterator[str]:
        snapshot = self.core.snapshot()
        self.core = Core.restore(snapshot)
        assert self.core.snapshot() == snapshot
        yield f"digest={self.core.digest():016x} bytes={len(snapshot)}"


def traced(text: str) -> str:
    """The script with its trace as it is now."""
    script = Script()
    lines = []
    for command in text.splitlines():
        if command.startswith("  "):
            continue
        lines.append(command)
        if command and not command.startswith("#"):
            lines += [f"  {told}" for told in script.run(command)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.txt")), ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    before = path.read_text()
    now = traced(before)
    if os.environ.get("STOKER_GOLDEN") == "rewrite":
        path.write_text(now)
    else:
        assert now == before


def test_there_are_golden_scripts() -> None:
    assert len(list(GOLDEN.glob("*.txt"))) >= 8
