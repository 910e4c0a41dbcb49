# SPDX-License-Identifier: Apache-2.0
"""The text of `explain`: decisions and their ids stand behind the whole one alone."""

from __future__ import annotations

from typing import Any

from stoker.tui.render import explain

ID = "GPU-37ebdcd9-e87a-4613-a443-df789558867f"
EXPLAINED: dict[str, Any] = {
    "job": 4,
    "state": "running",
    "summary": "runs on node vm for 57.3 s",
    "reasons": [],
    "actions": [],
    "decision": {
        "id": 720897,
        "node": "vm",
        "devices": [{"id": ID, "milli": 500, "sim": True}, {"id": "pocl-0", "milli": 1000}],
        "reason": "the fewest free devices that suffice",
        "observations": [17],
        "latency_ns": 47_400,
        "numa": "bound to NUMA node 0: CPUs 0-1",
    },
    "evidence": {"absent": "no scores were compared"},
}


def test_people_see_the_devices_and_whoever_wants_all_the_decision() -> None:
    shown = explain.render(EXPLAINED, now_ns=0)
    assert shown.splitlines()[1:] == [
        "devices: 0.5 of GPU-37ebdcd9 (SIM), pocl-0",
        "NUMA: bound to NUMA node 0: CPUs 0-1",
    ]
    whole = " ".join(explain.render(EXPLAINED, now_ns=0, whole=True).split())
    assert f"decision 720897: node vm, 0.5 of {ID} (SIM), pocl-0 why: the fewest" in whole
    assert "read: observations 17; decided in 47.4 us" in whole
    assert "signals: none: no scores were compared" in whole


def test_a_job_whose_use_is_not_known_has_the_reason() -> None:
    assert explain.efficient(EXPLAINED).splitlines() == [
        "job 4, running",
        "nothing is known of its use: it has not started",
    ]
