# SPDX-License-Identifier: Apache-2.0
"""The typed core: bounds, batches, errors, and that both sides mean the same by every number."""

from __future__ import annotations

import ast
import re
import threading
from pathlib import Path

import pytest

from stoker.native import _core
from stoker.native.errors import BadRequest, Corrupt, Refused
from stoker.scheduler import effects as eff
from stoker.scheduler import reasons, records
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.nouns import DeviceShare
from stoker.scheduler.policies import Placement
from stoker.scheduler.reasons import Reason
from stoker.scheduler.records import (
    Cancel,
    DeviceSet,
    Forget,
    NodeDown,
    NodeUp,
    Place,
    Submit,
    TaskOutcome,
    Term,
    unpack_commands,
)

HEADERS = Path(__file__).parents[2] / "native" / "core"
NODE = [NodeUp(7, 1, 1, 64_000, 1 << 40, 2), DeviceSet(7, 0), DeviceSet(7, 1)]
RUNNING, SUCCEEDED = records.STATE_CODES["running"], records.STATE_CODES["succeeded"]


def with_node(limits: Limits | None = None) -> Core:
    core = Core(limits)
    core.apply(core.propose(NODE, 1).commands, 1)
    return core


def step(core: Core, *requests: records.Request) -> list[eff.Effect]:
    return core.apply(core.propose(list(requests), 2).commands, 2)


COMMANDS = [
    Term(3, 9),
    NodeUp(1, 2, 3, 4, 5, 6),
    NodeDown(1, evict=True, remove=True, reason=1001),
    NodeDown(1),
    DeviceSet(1, 2, 300, 4, False, 812, 1002),
    Submit(1, b"0123456789abcdef", 2, 3, 4, -128, 300, 5, 1 << 40, 6),
    Submit(1),
    Place(1, 2, 0, 1, 4, (DeviceShare(5, 6), DeviceShare(63, 1000)), 202, 7, (8, 9), 10),
    Place(1, 2, 0, 1, 4, (), 203, 0, (), 0),
    TaskOutcome(1, 2, 3, SUCCEEDED, 0, None, 1003, 4),
    TaskOutcome(1, 2, 3, SUCCEEDED, None, 9),
    TaskOutcome(1, 2, 3, RUNNING),
    Cancel(1, 1001),
    Forget(1),
    records.RefusedRequests(1, 2, 1003),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: type(c).__name__)
def test_a_command_survives_packing(command: records.Command) -> None:
    assert list(unpack_commands(command.pack())) == [command]


def test_bytes_that_are_no_batch_do_not_unpack() -> None:
    raw = Cancel(1).pack()
    for bad in (raw[:7], raw[:-1], b"\xff" + raw[1:], raw[:2] + b"\x63" + raw[3:]):
        with pytest.raises(ValueError, match="byte 0"):
            list(unpack_commands(bad))


def enum_of(text: str, name: str) -> dict[str, int]:
    body = re.search(rf"enum {name} {{(.*?)}};", text, re.DOTALL)
    assert body
    return {n: int(v) for n, v in re.findall(r"SK_(\w+) = (\d+)", body[1])}


def test_reasons_are_those_of_the_header() -> None:
    header = enum_of((HEADERS / "reason.h").read_text(), "sk_reason")
    ours = {reason.name: reason.value for reason in Reason}
    header["NONE"] = header.pop("REASON_NONE")
    header["OUTER"] = header.pop("REASON_OUTER")
    assert ours == header


def test_states_kinds_and_bounds_are_those_of_the_header() -> None:
    text = (HEADERS / "wire.h").read_text()
    assert enum_of(text, "sk_state") == {s.upper(): c for s, c in records.STATE_CODES.items()}
    for name, code in enum_of(text, "sk_kind").items():
        assert getattr(records, name) == code
    defines = dict(re.findall(r"#define SK_(\w+_(?:MAX|MIN)) \(?(-?\d+)", text))
    for name in ("BATCH_REQUESTS_MAX", "BATCH_PLACES_MAX", "TASKS_MAX", "PRIORITY_MIN"):
        assert getattr(records, name) == int(defines[name])


def test_every_reason_has_a_sentence_with_figures_or_without() -> None:
    for reason in Reason:
        if reason is not Reason.OUTER:
            text = reasons.sentence(reason, asked=1, have=2, job=3, node="n", count=4)
            assert "{" not in text
            assert not text.startswith("reason ")
    assert reasons.sentence(1234) == "reason 1234"
    assert reasons.reason_of(1234) == 1234
    assert reasons.sentence(Reason.NO_NODE_HAS_DEVICES, asked=4, have=1) == (
        "asks for 4 devices, the largest node has 1"
    )


def test_the_stub_names_exactly_what_the_module_has() -> None:
    stub = ast.parse((HEADERS.parent / "_core.pyi").read_text())
    (cls,) = [node for node in stub.body if isinstance(node, ast.ClassDef)]
    named = {node.name for node in cls.body if isinstance(node, ast.FunctionDef)}
    assert named == {n for n in vars(_core.Core) if not n.startswith("_")} | {"__init__"}
    names = {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
    assert names | {"Core"} == {n for n in dir(_core) if not n.startswith("_")}


def test_a_second_thread_is_told_so() -> None:
    core = with_node(Limits(jobs=1024))
    requests = b"".join([Submit(1).pack()] * 1024)
    stop, told = threading.Event(), []

    def propose() -> None:
        while not stop.is_set():
            try:
                core.propose(requests, 3)
            except RuntimeError as error:
                told.append(str(error))
                stop.set()

    threads = [threading.Thread(target=propose) for _ in range(2)]
    for thread in threads:
        thread.start()
    stop.wait(30)
    stop.set()
    for thread in threads:
        thread.join()
    assert told
    assert "another thread" in told[0]
    assert core.check() == ""


def test_a_limit_of_nothing_is_refused() -> None:
    for limits in (Limits(nodes=0), Limits(jobs=0), Limits(keys=1 << 25), Limits(finished=0)):
        with pytest.raises(BadRequest):
            Core(limits)


def test_bytes_that_are_no_requests_change_nothing() -> None:
    core = with_node()
    before = core.digest()
    place = Place(1, 1, 0, 1, 7, (), 0, 0, (), 0)
    for bad in (b"x", Submit(1).pack()[:-1], Submit(1).pack() + b"\0", place.pack()):
        with pytest.raises(BadRequest):
            core.propose(bad, 1)
    with pytest.raises(Refused, match="1024"):
        core.propose([Submit(1)] * 1025, 1)
    assert core.digest() == before
    assert len(core.propose([Submit(1)] * 1024, 1).rejected) == 0


def test_bytes_that_are_no_batch_change_nothing() -> None:
    core = with_node()
    before = core.snapshot()
    good = Submit(1).pack()
    gang = [Place(1, 1, task, 3, 7, (), 0, 0, (), 0).pack() for task in range(3)]
    bad = [
        good + b"\0",
        good[:-1],
        good + gang[1],
        good + gang[0] + gang[1],
        good + gang[0] + gang[2] + gang[1],
        good + gang[0] + Cancel(1).pack() + gang[1] + gang[2],
        good + gang[0] + Place(2, 1, 1, 3, 7, (), 0, 0, (), 0).pack() + gang[2],
        good + TaskOutcome(1, 1, 7, records.STATE_CODES["stopping"]).pack(),
        good + TaskOutcome(1, 1, 7, 10).pack(),
        good + good[:4] + b"\1" + good[5:],
        good + NODE[0].pack()[:-1] + b"\1",
    ]
    for batch in bad:
        with pytest.raises(Corrupt):
            core.apply(batch, 5)
    assert core.snapshot() == before
    assert len(core.apply(good, 5)) == 1


def test_a_batch_places_a_bounded_number_of_tasks_and_says_that_there_is_more() -> None:
    core = with_node()
    core.apply(core.propose([NodeDown(7)], 2).commands, 2)
    for _ in range(3):
        core.apply(core.propose([Submit(1)] * 100, 3).commands, 3)
    core.apply(NodeUp(7, 1, 2, 64_000, 1 << 40, 2).pack(), 3)
    proposal = core.propose([], 4)
    assert proposal.more
    assert len(list(unpack_commands(proposal.commands))) == records.BATCH_PLACES_MAX
    core.apply(proposal.commands, 4)
    proposal = core.propose([], 5)
    assert not proposal.more
    assert len(list(unpack_commands(proposal.commands))) == 300 - records.BATCH_PLACES_MAX


def test_more_effects_than_one_buffer_keep_their_command_numbers() -> None:
    core = with_node(Limits(finished=400))
    for _ in range(6):
        core.apply(core.propose([Submit(1)] * 200, 2).commands, 2)
    batch = core.propose(
        [Submit(1), NodeDown(7, evict=True), Submit(1), NodeDown(7, remove=True)], 3
    )
    told = core.apply(batch.commands, 3)
    assert [e.command for e in told if e.command != 1] == [0, 2]
    lost = [e for e in told if isinstance(e, eff.StateChanged) and e.state == "lost"]
    assert [e.job for e in lost] == list(range(1, 1201))
    forgotten = [e for e in told if isinstance(e, eff.Forgotten)]
    assert [e.job for e in forgotten] == list(range(1, 801))
    assert core.check() == ""
    assert core.nodes() == []


def test_the_latency_of_the_call_is_in_every_place() -> None:
    core = with_node()
    proposal = core.propose([Submit(1, gpu_milli=100)] * 3, 5)
    places = [c for c in unpack_commands(proposal.commands) if isinstance(c, Place)]
    assert proposal.latency_ns > 0
    assert [p.latency_ns for p in places] == [proposal.latency_ns] * 3
    core.apply(proposal.commands, 5)
    info = core.job(1)
    assert info is not None
    assert info.latency_ns == proposal.latency_ns


def test_proposing_leaves_no_trace_and_is_repeatable() -> None:
    core = with_node()
    requests = [
        Submit(1, b"k", gpu_milli=300),
        Submit(2),
        NodeDown(7, evict=True),
        NodeUp(8, 1, 1, 1, 1, 3),
    ]
    step(core, Submit(5, gpu_milli=1000), Submit(6))
    before = core._core.memory_digest(), core.snapshot()
    first = core.propose(requests, 9, 77, measure=False)
    assert (core._core.memory_digest(), core.snapshot()) == before
    assert core.propose(requests, 9, 77, measure=False) == first
    assert core.propose(b"".join(r.pack() for r in requests), 9, 77, measure=False) == first


def test_the_same_chance_gives_the_same_choice_and_another_may_not() -> None:
    def chosen(seed: int) -> list[int]:
        core = Core(Limits(nodes=64))
        nodes = [NodeUp(n, 1, 1, 1000, 1000, 0) for n in range(1, 33)]
        core.apply(core.propose(nodes, 1).commands, 1)
        proposal = core.propose([Submit(1)] * 16, 2, seed)
        return [c.node for c in unpack_commands(proposal.commands) if isinstance(c, Place)]

    assert chosen(5) == chosen(5)
    assert len({tuple(chosen(seed)) for seed in range(8)}) > 1


def test_what_is_not_there_is_said_so() -> None:
    core = with_node()
    assert core.job(1) is None
    assert core.node(1) is None
    assert core.node(0) is None
    assert core.devices(1) == core.node_tasks(1) == core.job_tasks(1) == core.explain(1) == []
    assert not core.observe(1, 1, 1)
    assert not core.observe(0, 1, 1)


def test_observations_are_hints_and_no_state() -> None:
    core = with_node()
    before = core.digest()
    assert core.observe(7, 41, 500)
    assert core.digest() == before
    step(core, Submit(1, gpu_milli=10, placement=Placement.LEAST_BUSY))
    info = core.job(1)
    assert info is not None
    assert info.observations == (41,)


def test_a_full_batch_of_losses_is_refused_by_request_and_not_by_crash() -> None:
    limits = Limits(nodes=40, node_tasks=64, jobs=4096, tasks=4096, finished=64)
    core = Core(limits)
    nodes: list[records.Request] = [NodeUp(n, 1, 1, 0, 0, 64) for n in range(1, 17)]
    nodes += [DeviceSet(n, d) for n in range(1, 17) for d in range(60)]
    for at in range(0, len(nodes), 1000):
        core.apply(core.propose(nodes[at : at + 1000], 1).commands, 1)
    for _ in range(4):
        core.apply(core.propose([Submit(1, gpu_milli=1000)] * 256, 2).commands, 2)
    boots: list[records.Request] = [
        NodeUp(1 + i % 16, 2 + i // 16, 1, 0, 0, 64) for i in range(1024)
    ]
    proposal = core.propose(boots, 3)
    assert {r.reason for r in proposal.rejected} <= {Reason.BATCH_FULL}
    assert all(r.retry for r in proposal.rejected)
    core.apply(proposal.commands, 3)
    assert core.check() == ""


def keyed(core: Core, client: int, number: int) -> Reason | None:
    """Submit under a key; the reason of the refusal, None where a job was made."""
    proposal = core.propose([Submit(client, key=number.to_bytes(16, "little"))], 1)
    core.apply(proposal.commands, 1)
    return Reason(proposal.rejected[0].reason) if proposal.rejected else None


def test_a_flood_of_keys_pushes_out_nobody_elses() -> None:
    core = with_node(Limits(nodes=1, devices=2, jobs=4096, finished=8, keys=64))
    quiet, flood = 1, 2
    assert [keyed(core, quiet, n) for n in range(1, 9)] == [None] * 8
    assert [keyed(core, flood, n) for n in range(1, 501)] == [None] * 500
    assert [keyed(core, quiet, n) for n in range(1, 9)] == [Reason.DUPLICATE] * 8
    newest = range(500 - 64 + 8 + 1, 501)
    assert {keyed(core, flood, n) for n in newest} == {Reason.DUPLICATE}
    assert core.check() == ""
    assert core.counters()["keys_forgotten"] == 500 - (64 - 8)
    assert Core.restore(core.snapshot()).digest() == core.digest()


def test_clients_that_flood_together_share_the_keys() -> None:
    core = with_node(Limits(nodes=1, devices=2, jobs=4096, finished=8, keys=60))
    for n in range(1, 301):
        for client in (1, 2, 3):
            assert keyed(core, client, n) is None
    for client in (1, 2, 3):
        assert {keyed(core, client, n) for n in range(300 - 20 + 1, 301)} == {Reason.DUPLICATE}
    assert keyed(core, 4, 1) is None
    assert keyed(core, 4, 1) is Reason.DUPLICATE
    assert core.check() == ""


def test_what_may_have_been_forgotten_is_known_by_its_time() -> None:
    hour = 3600 * 10**9
    core = Core(Limits(nodes=1, devices=2, jobs=64, finished=8, keys=8))

    def submit(client: int, number: int, now_ns: int) -> None:
        made = core.propose([Submit(client, key=number.to_bytes(16, "little"))], now_ns)
        core.apply(made.commands, now_ns)

    unknown = b"unknown".ljust(16, b"\0")
    submit(1, 1, 50)
    for n in range(1, 8):
        submit(2, n, 100 * n)
    assert core.key_window(2, unknown) == 0  # there was room for all
    submit(2, 8, 800)
    assert core.key_window(2, unknown) == 200
    assert core.key_window(2, (5).to_bytes(16, "little")) == 0  # it is there
    assert core.key_window(1, unknown) == 0  # it has too few to have lost one
    assert core.key_window(3, unknown) == 0
    assert core.counters()["keys_forgotten_young"] == 1
    submit(2, 9, 200 + hour)
    counters = core.counters()
    assert (counters["keys_forgotten"], counters["keys_forgotten_young"]) == (2, 1)
    again = Core.restore(core.snapshot())
    assert again.key_window(2, unknown) == core.key_window(2, unknown) == 300
