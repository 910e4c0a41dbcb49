# SPDX-License-Identifier: Apache-2.0
"""A sampler reads what has changed, bounded, and says what nobody answered or refused."""

from __future__ import annotations

import msgspec
import pytest
from fakes import top_cluster
from fakes.sampled_cluster import SampledCluster
from fakes.top_cluster import GPU, NOW, SECOND

from stoker.mesh.recording import sampler as sampled
from stoker.mesh.recording.blocks import Recorded
from stoker.mesh.recording.sampler import ClusterSampler
from stoker.mesh.wire import schema_telemetry
from stoker.native.errors import Denied, Unavailable


def sampler(fake: SampledCluster, details: int = 0) -> ClusterSampler:
    return ClusterSampler(fake, details=details, now_ns=lambda: fake.now_ns)  # type: ignore[arg-type]


def parts(recorded: list[Recorded]) -> dict[str, int]:
    return {each.part: len(each.rows) for each in recorded}


async def test_the_first_sample_has_everything_and_the_next_what_changed() -> None:
    fake = SampledCluster()
    made = sampler(fake)
    first = await made.sample()
    assert parts(first) == {
        "nodes": 3, "devices": 11, "events": 1, "summaries": len(top_cluster.summaries()),
        "jobs": len(top_cluster.jobs()), "queues": 1, "cluster": 1, "streams": 1,
        "alerts": len(top_cluster.alerts().alerts), "positions": 1,
    }  # fmt: skip
    fake.second = 1
    second = await made.sample()
    assert parts(second) == {"nodes": 3, "devices": 1}
    assert {each.t_ns for each in second} == {NOW + SECOND}, "one time for one sample"
    fake.second = 10
    assert "events" in parts(await made.sample())
    assert fake.jobs_read == 2, "an event was told, so the jobs were read again"


async def test_whole_rows_are_those_of_the_last_sample() -> None:
    fake = SampledCluster()
    made = sampler(fake)
    for fake.second in range(4):
        await made.sample()
    rows = {each.part: each for each in made.whole()}
    assert "events" not in rows and all(each.whole for each in rows.values())
    card = rows["devices"].rows[f"n1:{GPU}0"]
    assert card is not None and msgspec.json.decode(card)["power_w"] == 103.0


async def test_alerts_of_a_node_that_does_not_answer_are_not_recorded_as_over() -> None:
    fake = SampledCluster()
    made = sampler(fake)
    hot, idle, over = top_cluster.alerts().alerts
    keys = [f"{each.node}:{each.alert}" for each in (hot, idle, over)]
    told: list[Recorded] = []
    for absent in ({}, {"n2": "it is silent"}, {}):
        if told:
            fake.listed = msgspec.structs.replace(
                top_cluster.alerts(), alerts=(hot, over), absent=absent
            )
        else:
            fake.listed = msgspec.structs.replace(top_cluster.alerts(), absent={})
        for _ in range(sampled.EVERY["alerts"]):
            told += await made.sample()
    rows = [each.rows for each in told if each.part == "alerts"]
    assert list(rows[0]) == keys
    assert rows[1:] == [{keys[1]: None}], "it is over once all nodes have answered"


async def test_a_device_that_is_gone_leaves_a_row_that_says_so() -> None:
    fake = SampledCluster()
    made = sampler(fake)
    await made.sample()
    reply = await fake.devices()

    async def fewer() -> object:
        return msgspec.structs.replace(reply, devices=reply.devices[1:])

    fake.devices = fewer  # type: ignore[assignment, method-assign]
    (change,) = [each for each in await made.sample() if each.part == "devices"]
    assert change.rows == {f"n1:{GPU}0": None}


async def test_nobody_answers_then_the_gap_has_the_reason_and_nothing_is_told_twice() -> None:
    fake = SampledCluster()
    made = sampler(fake)
    await made.sample()
    fake.away, fake.second = Unavailable("the broker is gone"), 1
    assert await made.sample() == []
    fake.away, fake.second = None, 9
    gap, *rest = await made.sample()
    assert gap.part == "gap" and rest
    row = gap.rows[str(NOW)]
    assert row is not None
    assert msgspec.json.decode(row) == {
        "from_ns": NOW, "to_ns": NOW + 9 * SECOND, "why": "the broker is gone"
    }  # fmt: skip
    assert made.gap() == []


async def test_what_a_user_may_not_read_is_absent_with_the_reason() -> None:
    fake = SampledCluster()

    async def denied(
        request: schema_telemetry.TelemetryReadRequest,
    ) -> schema_telemetry.TelemetryView:
        raise Denied("only an administrator reads events")

    fake.telemetry = denied  # type: ignore[method-assign]
    made = sampler(fake)
    refused = {k: v for each in await made.sample() if each.part == "refused"
               for k, v in each.rows.items()}  # fmt: skip
    assert refused["events"] == b'"only an administrator reads events"'


async def test_details_are_bounded_and_old_ones_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "DETAILS_KEPT", 1)
    fake = SampledCluster()
    made = sampler(fake, details=3)
    gone: set[str] = set()
    for fake.second in range(12):
        recorded = await made.sample()
        details = [each for each in recorded if each.part in ("job", "explain", "topology")]
        assert sum(row is not None for each in details for row in each.rows.values()) <= 3
        gone |= {key for each in details for key, row in each.rows.items() if row is None}
    rows = {each.part: each.rows for each in made.whole()}
    assert {len(rows[part]) for part in ("job", "explain", "topology")} == {1}
    assert gone, "what is forgotten here is gone from the recording's next moments too"
