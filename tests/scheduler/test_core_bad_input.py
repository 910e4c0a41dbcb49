# SPDX-License-Identifier: Apache-2.0
"""Malformed, oversized, early, late, repeated and hostile commands: a named refusal, and no change.

`apply` counts what it ignores, which is part of the state; nothing else may change there.
"""

from __future__ import annotations

import struct
from random import Random

import pytest

from stoker.native.errors import BadRequest, Corrupt
from stoker.scheduler import effects as eff
from stoker.scheduler import records as rec
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.nouns import DeviceShare
from stoker.scheduler.policies import Option, Placement
from stoker.scheduler.reasons import Reason
from tests.scheduler.oracle_nouns import KINDS

RANGE = 1 << 63

RUNNING = rec.STATE_CODES["running"]
SHARE = (DeviceShare(0, 500),)
HELD = rec.Submit(1, b"held", gpu_milli=500, options=Option.PREEMPTIBLE)
SAMPLES: dict[int, rec.Command] = {
    rec.TERM: rec.Term(6, 2),
    rec.NODE_UP: rec.NodeUp(2, 1, 1, 8000, 1 << 30, 1, 3),
    rec.NODE_DOWN: rec.NodeDown(1, reason=1001),
    rec.DEVICE_SET: rec.DeviceSet(1, 1, 900, 1 << 20, True, 0, 0, 71, 1, 1, 1),
    rec.DEVICE_TRAITS: rec.DeviceTraits(1, 1, 9, 41, 51, 550),
    rec.SUBMIT: rec.Submit(1, b"new", 2, 3, 4, 5, 500, 6, 7),
    rec.PLACE: rec.Place(2, 1, 0, 1, 1, SHARE, 0, 0, (), 0),
    rec.OUTCOME: rec.TaskOutcome(1, 1, 1, RUNNING),
    rec.CANCEL: rec.Cancel(1),
    rec.FORGET: rec.Forget(3),
    rec.REFUSED: rec.RefusedRequests(1, 2, 1003),
    rec.NODE_LABEL: rec.NodeLabel(1, 11, 5),
    rec.NODE_RESERVE: rec.NodeReserve(1, 0, 5, 6),
    rec.QUEUE_SET: rec.QueueSet(3, 0, 2),
    rec.QUOTA_SET: rec.QuotaSet(0, 0, 0, 2000),
    rec.USAGE: rec.DeviceUsage(1, 1, 9),
    rec.PREEMPT: rec.Preempt(1, 1),
    rec.PREFER: rec.Prefer(2, 1, 1, SHARE),
    rec.GIVE_UP: rec.GiveUp(4, 1),
    rec.SUBMIT_ARRAY: rec.SubmitArray(1, b"array", gpu_milli=500, jobs=2, behind=3),
    rec.RANGE_END: rec.RangeEnd(5, RANGE),
}
"""One sound command of each kind for the state of `ready`."""


def ready() -> Core:
    """One node, jobs 1 and 4 (a gang) placed, job 2 left to outside, job 3 ended, job 5 held by a
    range; term 5."""
    core = Core(Limits(nodes=4, devices=16, jobs=9, finished=4, tasks=8, keys=4, queues=4))
    custom = rec.Submit(1, gpu_milli=500, placement=Placement.CUSTOM)
    requests = [rec.Term(5, 1), rec.NodeUp(1, 1, 1, 8000, 1 << 30, 2), rec.DeviceSet(1, 0), HELD]
    requests += [custom, rec.Submit(1, b"ended"), rec.Cancel(3), rec.Submit(1, tasks=2)]
    requests.append(rec.Submit(1, after=(RANGE,)))
    core.apply(core.propose(requests, 1, measure=False).commands, 1)
    return core


def stamped(command: rec.Command, term: int = 5) -> bytes:
    raw = command.pack()
    return raw if raw[2] == rec.TERM else raw[:8] + struct.pack("<Q", term) + raw[16:]


def everything_but_counts(core: Core) -> bytes:
    """A snapshot without the counters, whose offset in it is fixed."""
    snapshot = core.snapshot()
    return snapshot[16:128] + snapshot[128 + 8 * (9 + 10 + len(refusals())) :]


def refusals() -> range:
    return range(1 + max(r for r in Reason if r < 100))


def test_there_is_a_sound_command_of_every_kind() -> None:
    assert set(SAMPLES) == set(KINDS.values()) == set(rec.SIZES)
    for kind, command in SAMPLES.items():
        core = ready()
        if kind == rec.PREFER:
            assert core.propose([command], 2).rejected == []
            continue
        told = core.apply(stamped(command), 2)
        assert not [e for e in told if isinstance(e, eff.Ignored | eff.Duplicate)], kind


@pytest.mark.parametrize("kind", SAMPLES)
def test_bytes_that_are_no_such_record_are_refused_whole(kind: int) -> None:
    core, sound = ready(), stamped(SAMPLES[kind])
    before = core.digest(), core.snapshot()
    size = len(sound)
    bad = [
        sound[:-1], sound + b"\0", sound[:8], sound + sound[: size // 2],
        struct.pack("<H", size + 8) + sound[2:] + bytes(8),
        struct.pack("<H", size - 8) + sound[2:-8],
        struct.pack("<H", 0) + sound[2:],
        sound[:2] + struct.pack("<H", 0) + sound[4:],
        sound[:2] + struct.pack("<H", max(SAMPLES) + 1) + sound[4:],
        sound[:2] + struct.pack("<H", 0xFFFF) + sound[4:],
        sound[:4] + struct.pack("<I", 1 << 31) + sound[8:],
    ]  # fmt: skip
    for raw in bad:
        for batch in (raw, stamped(rec.Cancel(1)) + raw):
            with pytest.raises(Corrupt):
                core.apply(batch, 2)
            with pytest.raises(BadRequest):
                core.propose(batch, 2)
    assert (core.digest(), core.snapshot()) == before


@pytest.mark.parametrize("kind", [kind for kind in SAMPLES if kind != rec.PREFER])
def test_a_late_term_changes_nothing(kind: int) -> None:
    core = ready()
    before = everything_but_counts(core)
    late = rec.Term(5, 9).pack() if kind == rec.TERM else stamped(SAMPLES[kind], 4)
    (told,) = core.apply(late, 1)
    assert isinstance(told, eff.Ignored)
    assert told.reason == Reason.STALE_TERM
    assert everything_but_counts(core) == before


ONCE = {rec.NODE_UP, rec.NODE_DOWN, rec.DEVICE_SET, rec.SUBMIT, rec.PLACE, rec.OUTCOME, rec.CANCEL}
ONCE |= {rec.FORGET, rec.NODE_LABEL, rec.NODE_RESERVE, rec.QUEUE_SET, rec.QUOTA_SET, rec.USAGE}
ONCE |= {rec.PREEMPT, rec.TERM}


@pytest.mark.parametrize("kind", sorted(ONCE))
def test_what_is_repeated_changes_nothing(kind: int) -> None:
    core, command = ready(), SAMPLES[kind]
    core.apply(stamped(command), 2)
    before = everything_but_counts(core)
    term = core.term
    (told,) = core.apply(stamped(command, term), 2)
    assert isinstance(told, eff.Ignored | eff.Duplicate)
    assert everything_but_counts(core) == before


def hostile(random: Random, sound: bytes) -> bytes:
    """A record in which some words are as large, small or odd as they can be."""
    raw = bytearray(sound)
    for _ in range(random.randrange(1, 4)):
        width = random.choice((2, 4, 8))
        at = random.randrange(16, len(raw) - width + 1, 2)
        value = random.choice((0, 1, 1 << (8 * width - 1), (1 << 8 * width) - 1, 63, 64, 65, 1001))
        raw[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, "little")
    return bytes(raw)


@pytest.mark.parametrize("kind", SAMPLES)
def test_hostile_figures_are_refused_by_name_or_kept_within_the_state(kind: int) -> None:
    random = Random(kind)
    core, before = ready(), ready().snapshot()
    for _ in range(150):
        raw = hostile(random, stamped(SAMPLES[kind]))
        try:
            proposal = core.propose(raw, 1)
        except BadRequest:
            proposal = None
        assert core.snapshot() == before
        for rejected in proposal.rejected if proposal else []:
            assert Reason(rejected.reason).name
            assert "{" not in rejected.text()
        other = Core.restore(before)
        try:
            told = other.apply(raw, 1)
        except Corrupt:
            assert other.snapshot() == before
            continue
        refused = [e for e in told if isinstance(e, eff.Ignored)]
        assert all(Reason(e.reason).name for e in refused)
        assert other.check() == ""
        assert Core.restore(other.snapshot()).digest() == other.digest()
        if refused:
            assert everything_but_counts(other) == everything_but_counts(core)
