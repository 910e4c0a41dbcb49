# SPDX-License-Identifier: Apache-2.0
"""An observation leads to a decision and its explanation, at one replica without I/O."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import events
from stoker.mesh.replica.watch.node_signals import SLOWED_NS, STALE_NS, sample_of
from stoker.mesh.server import decision_evidence
from stoker.mesh.server.explanation import explain_view
from stoker.mesh.wire import schema
from stoker.scheduler.book import Job
from stoker.scheduler.hints import ModelPower, Sample
from stoker.scheduler.nouns import DeviceInfo, DeviceSample, NodeReport, Observation
from stoker.scheduler.wire_hints import SampleRecord
from tests.mesh.bench import Bench

NS = 1_000_000_000
FIELDS: dict[str, Any] = {
    "busy_ratio": 0.0, "power_w": 30.0, "temperature_c": 40.0, "limit_c": 90.0,
    "power_limit_w": 300.0, "memory_free_bytes": 1 << 30,
}  # fmt: skip


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    return started(signer)


def started(signer: Identity, **settings: Any) -> Bench:
    bench = Bench(signer, **settings).lead()
    for node in ("n1", "n2"):
        devices = tuple(
            DeviceInfo(f"{node}-gpu{i}", "sim", "m", memory_bytes=1 << 30) for i in "ab"
        )
        report = NodeReport(node, "boot", 1, 8000, 1 << 34, devices)
        bench.feed(events.NodeReported(("hello", node), report))
    return bench


def seen(bench: Bench, id: int, node: str, *changes: dict[str, Any], load: int = 100) -> None:
    """The node observes; each dictionary is what differs at one of its devices."""
    samples = tuple(
        DeviceSample(f"{node}-gpu{name}", **{**FIELDS, **changed})
        for name, changed in zip("ab", changes, strict=True)
    )
    bench.feed(events.Observed(node, Observation(id, node, 1, load, 1 << 30, samples)))


def placed(bench: Bench, **spec: Any) -> Job:
    token = ("job", len(bench.replies))
    bench.submit(token, **{"gpu_milli": 1000, **spec})
    job = bench.replies[token]
    assert job.decision is not None
    return bench.replica.state.book.get(job.job)


def device(bench: Bench, job: Job) -> str:
    assert job.decision is not None
    report = bench.replica.state.book.nodes[job.decision.node]
    return report.devices[job.decision.devices[0].index].id


def evidence(bench: Bench, job: Job) -> schema.EvidenceView:
    found = explain_view(bench.replica, job, bench.now).evidence
    assert found is not None
    return found


def test_each_rank_of_a_gang_has_its_own_evidence(bench: Bench) -> None:
    """Rank 0 has the coolest card and rank 1 the next one; each names what it read."""
    seen(bench, 7, "n1", {"temperature_c": 51.0}, {"temperature_c": 60.0})
    seen(bench, 8, "n2", {"temperature_c": 41.0}, {"temperature_c": 70.0})
    job = placed(bench, placement="thermal", tasks=2)
    found = [explain_view(bench.replica, job, bench.now, rank) for rank in range(2)]
    assert [each.rank for each in found] == [0, 1]
    assert [each.decision and each.decision.node for each in found] == ["n2", "n1"]
    sides = [each.evidence and each.evidence.chosen for each in found]
    assert [side and (side.device, side.values["temperature_c"]) for side in sides] == [
        ("n2-gpua", 41.0), ("n1-gpua", 51.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("placement", "better", "worse"),
    [
        ("thermal", {"temperature_c": 41.0}, {"temperature_c": 51.0}),
        ("thermal", {"limit_c": 95.0}, {"limit_c": 90.0}),
        ("thermal", {}, {"throttle": ("thermal",)}),
        ("least-busy", {"busy_ratio": 0.2}, {"busy_ratio": 1.0}),
        ("least-busy", {}, {"memory_free_bytes": 1 << 28}),
        ("least-busy", {"clock_ratio": 1.0}, {"clock_ratio": 0.4}),
        ("power", {"power_limit_w": 150.0}, {}),
        ("power", {"power_w": 250.0, "busy_ratio": 0.9}, {}),
    ],
)
@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_reading_decides_between_nodes(
    bench: Bench, node: str, placement: str, better: dict[str, Any], worse: dict[str, Any]
) -> None:
    other = "n2" if node == "n1" else "n1"
    for each in ("n1", "n2"):
        seen(bench, 6, each, {}, {})
    seen(bench, 7, node, better, worse)
    seen(bench, 8, other, worse, worse)
    job = placed(bench, placement=placement)
    assert device(bench, job) == f"{node}-gpua"
    found = evidence(bench, job)
    assert found.chosen
    assert found.next_best
    assert (found.chosen.node, found.chosen.observation) == (node, 7)
    assert job.decision
    assert job.decision.observations == (7,)
    assert found.flip


def test_what_would_have_flipped_it_is_true(bench: Bench) -> None:
    """The sentence is taken at its word: one degree more is not enough, and that one is."""
    seen(bench, 1, "n1", {"temperature_c": 34.0}, {"temperature_c": 51.0})
    seen(bench, 1, "n2", {"temperature_c": 60.0}, {"temperature_c": 60.0})
    job = placed(bench, placement="thermal")
    assert device(bench, job) == "n1-gpua"
    assert evidence(bench, job).flip == "n1-gpub would have been chosen at 33 C or below"
    bench.outcome(job.job, "succeeded", exit_code=0)
    seen(bench, 2, "n1", {"temperature_c": 34.0}, {"temperature_c": 34.0})
    again = placed(bench, placement="thermal")
    assert device(bench, again) == "n1-gpua"
    bench.outcome(again.job, "succeeded", exit_code=0)
    seen(bench, 3, "n1", {"temperature_c": 34.0}, {"temperature_c": 33.0})
    assert device(bench, placed(bench, placement="thermal")) == "n1-gpub"


def test_the_load_of_nodes_decides_for_jobs_without_devices(bench: Bench) -> None:
    seen(bench, 1, "n1", {}, {}, load=900)
    seen(bench, 1, "n2", {}, {}, load=500)
    job = placed(bench, placement="least-busy", gpu_milli=0)
    assert job.decision
    assert job.decision.node == "n2"
    found = evidence(bench, job)
    assert found.chosen
    assert found.chosen.values == {"load": 0.5}
    assert found.flip == "node n1 would have been chosen below load 0.5"


def test_a_policy_without_its_signal_says_what_it_used(bench: Bench) -> None:
    for placement, words in (
        ("thermal", "no temperature of the devices taken is known here: placed by the policy best"),
        ("power", "no power figures of this device's model are known here: placed by the policy"),
        ("least-busy", "no load of this node is known, so the fewest tasks"),
    ):
        job = placed(bench, placement=placement)
        assert words in job.decision.reason if job.decision else ""
        found = evidence(bench, job)
        assert found.chosen
        assert found.chosen.absent == decision_evidence.NONE_YET or placement == "power"
        bench.outcome(job.job, "succeeded", exit_code=0, node=job.decision.node)  # type: ignore[union-attr]


def test_an_old_observation_is_not_used_and_that_is_said(bench: Bench) -> None:
    seen(bench, 1, "n1", {"temperature_c": 30.0}, {"temperature_c": 30.0})
    bench.tick(STALE_NS / NS / 2)
    seen(bench, 1, "n2", {"temperature_c": 60.0}, {"temperature_c": 60.0})
    bench.tick(STALE_NS / NS / 2)
    assert bench.replica.counters["observation_stale"] == 1
    job = placed(bench, placement="thermal")
    assert device(bench, job) == "n2-gpua", "n1 was cool, but that was too long ago"
    bench.tick(STALE_NS / NS)
    job = placed(bench, placement="thermal")
    found = evidence(bench, job)
    assert found.chosen
    assert found.chosen.absent == decision_evidence.STALE
    assert found.chosen.values == {}
    assert job.decision
    assert job.decision.observations == ()
    seen(bench, 3, "n1", {"temperature_c": 30.0}, {"temperature_c": 30.0})
    assert device(bench, placed(bench, placement="thermal")).startswith("n1")


def test_an_observation_is_taken_back_at_the_first_event_after_it_is_stale(bench: Bench) -> None:
    """The replica looks only when something may be too old; here a model looks every time."""
    chance, heard, stale = random.Random(5), {}, 0
    for number in range(400):
        bench.now += chance.choice((1, NS // 3, NS, STALE_NS - 1, STALE_NS))
        old = [node for node, at in heard.items() if bench.now - at >= STALE_NS]
        for node in old:
            del heard[node]
        stale += len(old)
        if chance.random() < 0.5:
            node = chance.choice(("n1", "n2"))
            seen(bench, number + 1, node, {}, {})
            heard[node] = bench.now
        else:
            bench.tick(0)
        assert bench.replica.counters.get("observation_stale", 0) == stale, number
    assert stale > 50


def test_a_throttled_card_counts_as_slowed_for_a_while(bench: Bench) -> None:
    seen(bench, 1, "n1", {"throttle": ("hard thermal",)}, {"temperature_c": 80.0})
    seen(bench, 2, "n1", {"temperature_c": 30.0}, {"temperature_c": 80.0})
    job = placed(bench, placement="thermal")
    assert device(bench, job) == "n1-gpub"
    assert evidence(bench, job).next_best
    bench.outcome(job.job, "succeeded", exit_code=0)
    bench.now += SLOWED_NS
    seen(bench, 3, "n1", {"temperature_c": 30.0}, {"temperature_c": 80.0})
    assert device(bench, placed(bench, placement="thermal")) == "n1-gpua"


def test_watts_of_a_file_hold_against_readings(signer: Identity) -> None:
    bench = started(signer, watts={"m": ModelPower(10.0, 100.0)})
    seen(bench, 1, "n1", {"power_w": 99.0, "busy_ratio": 0.9}, {})
    seen(bench, 1, "n2", {}, {})
    job = placed(bench, placement="power")
    assert device(bench, job) == "n1-gpua"
    found = evidence(bench, job)
    assert found.chosen
    assert found.chosen.compared == "would add 1 W"


def test_a_new_leader_has_no_values_and_says_why(bench: Bench, signer: Identity) -> None:
    seen(bench, 1, "n1", {"temperature_c": 30.0}, {})
    job = placed(bench, placement="thermal")
    assert evidence(bench, job).chosen
    later = Bench(signer, bench.log)
    later.now = bench.now
    later.lead()
    found = evidence(later, later.replica.state.book.get(job.job))
    assert found.chosen is None
    assert found.absent == decision_evidence.NOT_KEPT
    again = placed(later, placement="thermal")
    first = evidence(later, again).chosen
    assert first
    assert first.absent == decision_evidence.NONE_YET


def test_observations_are_no_part_of_state_or_log(bench: Bench) -> None:
    before, entries = bench.replica.state.digest(), len(bench.log.read(0))
    seen(bench, 1, "n1", {}, {})
    assert bench.replica.state.digest() == before
    assert len(bench.log.read(0)) == entries


def test_a_sample_has_what_is_known_and_no_more() -> None:
    info = DeviceInfo("a", "v", "m", memory_bytes=100, warning="hot")
    whole = sample_of(1, info, DeviceSample("a", memory_free_bytes=25), slowed=False)
    assert _read(whole) == Sample(1, memory=0.75, warned=True)
    unknown = sample_of(1, DeviceInfo("a", "v", "m"), DeviceSample("a"), slowed=True)
    assert _read(unknown) == Sample(1, slowed=True)


def _read(packed: bytes) -> Sample:
    (record,) = SampleRecord.unpack_all(packed)
    return Sample.of_record(record)


def test_a_node_that_reports_other_devices_is_observed_by_its_newest_report(bench: Bench) -> None:
    """The index of a device is that of the newest report, also for a node seen before."""
    for node in ("n1", "n2"):
        seen(bench, 1, node, {"temperature_c": 60.0}, {"temperature_c": 60.0})
    report = bench.replica.state.book.nodes["n1"]
    grown = (DeviceInfo("n1-new", "sim", "m", memory_bytes=1 << 30), *reversed(report.devices))
    again = msgspec.structs.replace(report, devices=grown, incarnation=2)
    bench.feed(events.NodeReported(("again",), again))
    seen(bench, 2, "n1", {"temperature_c": 41.0}, {"temperature_c": 55.0})
    assert device(bench, placed(bench, placement="thermal")) == "n1-gpua"
