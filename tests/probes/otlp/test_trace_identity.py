# SPDX-License-Identifier: Apache-2.0
"""Ids of traces and spans: of the right size, the same for everyone, different for what differs."""

from __future__ import annotations

from stoker.probes.otlp import trace_identity as identity

CLUSTER = "5a2e8f0c-6f0f-4a53-9a3c-7d1c1e7b9f10"


def test_ids_have_the_sizes_of_the_trace_context() -> None:
    assert len(identity.trace_id(CLUSTER, 7)) == 16
    spans = (
        identity.job_span(CLUSTER, 7),
        identity.attempt_span(CLUSTER, 7, 1, 0),
        identity.decision_span(CLUSTER, 7, 1, 0),
        identity.phase_span(identity.job_span(CLUSTER, 7), "pending", 1),
    )
    assert {len(each) for each in spans} == {8} and len(set(spans)) == 4


def test_ids_depend_on_what_they_name_and_on_nothing_else() -> None:
    """The number is what another process, of another version too, must compute."""
    assert identity.trace_id(CLUSTER, 7).hex() == "dea6f665ff202fec016fd6f22033298d"
    assert identity.attempt_span(CLUSTER, 7, 1, 0).hex() == "67171655adb95390"
    made = {identity.trace_id(f"{CLUSTER}{i}", job) for i in range(3) for job in range(300)}
    made |= {identity.trace_id(CLUSTER, job) for job in range(300)}
    assert len(made) == 1200
