# SPDX-License-Identifier: Apache-2.0
"""Measured speeds: what counts as a sample, how many are kept, and what a snapshot may hold."""

from __future__ import annotations

import struct
from random import Random

import pytest

from stoker.native.errors import Corrupt
from stoker.scheduler import records as rec
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.effects import Speed, Start
from stoker.scheduler.hints import RequestClass
from stoker.scheduler.policies import Option, Placement
from stoker.scheduler.reasons import Reason
from stoker.scheduler.wire_names import SPEED_SAMPLES_MAX, SPEEDS_MAX, Measure
from tests.scheduler.oracle_nouns import M64, mix
from tests.scheduler.oracle_placement import Chooser, Inputs
from tests.scheduler.oracle_speeds import Speeds

MODELS = (71, 72)


class Cluster:
    """Two nodes with one device each, of different models; every job is one of `series`."""

    def __init__(self, devices: int = 1) -> None:
        self.core = Core(Limits(nodes=4, devices=64, jobs=64, finished=8, tasks=64))
        self.oracle = Speeds()
        self.now = 0
        for node, model in enumerate(MODELS, 1):
            self.commit(rec.NodeUp(node, 1, 1, 64_000, 1 << 36, devices))
            for index in range(devices):
                self.commit(rec.DeviceSet(node, index, model=model))

    def commit(self, *requests: rec.Request) -> None:
        self.now += 1
        batch = self.core.propose(requests, self.now, measure=False)
        assert not batch.rejected
        self.core.apply(batch.commands, self.now)
        assert self.core.check() == ""

    def run(self, series: int, **end: int) -> int:
        """Run one job; return the node where it ran."""
        wanted = rec.Submit(1, gpu_milli=1000, series=series, placement=Placement.FASTEST)
        self.commit(wanted)
        job = self.core.counters()["submitted"]
        info = self.core.job(job)
        assert info
        outcome = rec.TaskOutcome(job, 1, info.node, rec.STATE_CODES["succeeded"], **end)
        self.oracle.told(wanted, {MODELS[info.node - 1]}, outcome)
        self.commit(outcome)
        return info.node


def test_a_speed_is_the_median_of_the_newest_jobs() -> None:
    cluster, random = Cluster(), Random(7)
    for _ in range(3 * SPEED_SAMPLES_MAX):
        cluster.run(9, launch_ns=random.randrange(1, 5000), run_ns=random.randrange(1, 10**12))
        assert cluster.core.speeds() == cluster.oracle.views()
    assert {speed.jobs for speed in cluster.core.speeds(9)} == {3 * SPEED_SAMPLES_MAX}
    assert cluster.core.speeds(8) == []


def test_the_speed_that_was_measured_longest_ago_makes_room() -> None:
    cluster = Cluster()
    for series in range(1, SPEEDS_MAX + 1):
        cluster.run(series, launch_ns=series)
    assert len(cluster.core.speeds()) == SPEEDS_MAX
    cluster.run(1, launch_ns=5)
    cluster.run(SPEEDS_MAX + 1, launch_ns=7)
    assert len(cluster.core.speeds()) == SPEEDS_MAX
    assert cluster.core.speeds() == cluster.oracle.views()
    assert [cluster.core.speeds(series) != [] for series in (1, 2, 3)] == [True, False, True]
    restored = Core.restore(cluster.core.snapshot())
    assert restored.speeds() == cluster.core.speeds()
    assert restored.digest() == cluster.core.digest()


def test_a_batch_measures_and_places_by_it_and_a_trial_measures_nothing() -> None:
    """The outcome of the faster model and the next job come in one entry."""
    cluster = Cluster()
    wanted = rec.Submit(1, gpu_milli=1000, series=9, placement=Placement.FASTEST)
    cluster.commit(wanted, wanted)
    good = rec.STATE_CODES["succeeded"]
    cluster.commit(rec.TaskOutcome(1, 1, 1, good, launch_ns=800))
    before = cluster.core.digest(), cluster.core._core.memory_digest()
    end = rec.TaskOutcome(2, 1, 2, good, launch_ns=400)
    batch = cluster.core.propose([end, wanted], 99, measure=False)
    assert (cluster.core.digest(), cluster.core._core.memory_digest()) == before
    (place,) = [c for c in rec.unpack_commands(batch.commands) if isinstance(c, rec.Place)]
    assert (place.node, place.reason) == (2, Reason.FASTEST)
    assert [speed.model for speed in cluster.core.speeds()] == [71]
    cluster.core.apply(batch.commands, 99)
    assert [speed.model for speed in cluster.core.speeds()] == [71, 72]


@pytest.mark.parametrize("state", ["failed", "lost", "cancelled", "timeout"])
def test_a_bad_end_tells_nothing_and_a_stopped_one_tells_of_its_launches(state: str) -> None:
    cluster = Cluster()
    cluster.commit(rec.Submit(1, gpu_milli=1000, series=9))
    end = rec.TaskOutcome(1, 1, 1, rec.STATE_CODES[state], run_ns=10**9, launch_ns=800)
    cluster.commit(end)
    told = [speed.measure for speed in cluster.core.speeds()]
    assert told == ([] if state in ("failed", "lost") else [Measure.LAUNCH])


class Mixed:
    """Nodes with devices of one, two and three models, some of which are linked or shared out."""

    MODELS = (71, 72, 73)

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.core = Core(Limits(nodes=16, devices=99, jobs=999, finished=9, tasks=999))
        self.inputs = Inputs()
        self.now = 0
        self.inputs.classes += [RequestClass(5, 300), RequestClass(2, 2000)]
        self.core.workload(self.inputs.classes)
        for node in range(1, 13):
            models = self.random.sample(self.MODELS, 1 + node % 3)
            self.commit(rec.NodeUp(node, 1, 1, 64_000, 1 << 36, 6))
            for index in range(6):
                model = self.random.choice(models)
                self.commit(rec.DeviceSet(node, index, model=model, link=index // 2))

    def commit(self, *requests: rec.Request) -> list[Start]:
        self.now += 1
        batch = self.core.propose(requests, self.now, measure=False)
        effects = self.core.apply(batch.commands, self.now)
        return [effect for effect in effects if isinstance(effect, Start)]

    def wanted(self, series: int) -> rec.Submit:
        milli = self.random.choice((300, 1000, 2000, 3000))
        linked = int(Option.SAME_LINK) if milli == 2000 and self.random.random() < 0.5 else 0
        return rec.Submit(
            1, gpu_milli=milli, series=series, placement=Placement.FASTEST, options=linked
        )

    def end(self, wanted: rec.Submit, start: Start) -> None:
        devices = self.core.devices(start.node)
        outcome = rec.TaskOutcome(
            start.job, 1, start.node, rec.STATE_CODES["succeeded"],
            launch_ns=self.random.randrange(100, 1000),
        )  # fmt: skip
        models = {devices[share.index].model for share in start.shares}
        self.inputs.speeds.told(wanted, models, outcome)
        self.commit(outcome)


@pytest.mark.parametrize("seed", range(8))
def test_every_sample_moves_the_choice_as_a_full_scan_would(seed: int) -> None:
    """Several series share what is kept of the nodes, and each has speeds of its own."""
    mixed = Mixed(seed)
    running: list[tuple[rec.Submit, Start]] = []
    moved = set()
    for _ in range(90):
        wanted = mixed.wanted(mixed.random.choice((61, 62, 63)))
        expected = Chooser(mixed.core, mixed.inputs).choose(wanted, Placement.FASTEST)
        started = mixed.commit(wanted)
        assert [(s.node, tuple((x.index, x.milli) for x in s.shares)) for s in started] == (
            [expected] if expected else []
        )
        if not started:
            mixed.commit(rec.Cancel(mixed.core.counters()["submitted"]))
        running += [(wanted, start) for start in started]
        moved |= {(wanted.series, start.node) for start in started}
        if running and (len(running) > 8 or not started):
            mixed.end(*running.pop(mixed.random.randrange(len(running))))
        assert mixed.core.scores_check()
    assert len(moved) > 12
    assert {speed.series for speed in mixed.core.speeds()} == {61, 62, 63}


def test_evidence_has_the_speeds_of_both() -> None:
    cluster = Cluster()
    wanted = rec.Submit(1, gpu_milli=1000, series=9, placement=Placement.FASTEST)
    cluster.commit(wanted, wanted)
    good = rec.STATE_CODES["succeeded"]
    cluster.commit(rec.TaskOutcome(1, 1, 1, good, launch_ns=900))
    cluster.commit(rec.TaskOutcome(2, 1, 2, good, launch_ns=400, run_ns=5))
    cluster.commit(wanted)
    found = cluster.core.evidence(3, 1)
    assert found and found.other and found.chosen.speed and found.other.speed
    assert (found.placement, found.reason) == (Placement.FASTEST, Reason.FASTEST)
    assert (found.chosen.node, found.chosen.figure, found.chosen.device) == (2, 20, 0)
    assert (found.other.node, found.other.figure) == (1, 45)
    assert found.chosen.speed == (Measure.LAUNCH, 400, 400, 400, 1)
    assert found.other.speed == (Measure.LAUNCH, 900, 900, 900, 1)


SAVED = struct.Struct("<Q8QIHH")
"""A `struct sk_saved_speed`, which is the last of a snapshot."""


def resealed(snapshot: bytes) -> bytes:
    """The snapshot with the digest of the bytes that it has now."""
    digest = 0
    for (word,) in struct.iter_unpack("<Q", snapshot[16:]):
        digest = (digest ^ word) * 0x9E3779B97F4A7C15 & M64
        digest = (digest << 29 | digest >> 35) & M64
    return snapshot[:8] + struct.pack("<Q", mix(digest)) + snapshot[16:]


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, 0), (1, 0), (2, 7), (1, (1 << 56) + 1), (9, 0), (10, 0), (10, 3), (11, 0), (11, 3)],
)
def test_a_speed_that_cannot_be_is_refused(at: int, value: int) -> None:
    cluster = Cluster()
    cluster.run(9, launch_ns=800)
    assert cluster.core.speeds() == [Speed(9, 71, Measure.LAUNCH, 1, 800, 800, 800)]
    snapshot = cluster.core.snapshot()
    assert Core.restore(resealed(snapshot)).speeds() == cluster.core.speeds()
    fields = list(SAVED.unpack(snapshot[-SAVED.size :]))
    fields[at] = value
    with pytest.raises(Corrupt):
        Core.restore(resealed(snapshot[: -SAVED.size] + SAVED.pack(*fields)))
