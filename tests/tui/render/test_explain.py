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


COOLER: dict[str, Any] = {
    "placement": "thermal",
    "chosen": {
        "node": "vm",
        "device": "GPU-7c65c1e5-82e2-4662-b728-b4fa42485e3a",
        "sim": True,
        "observation": 17,
        "values": {"temperature_c": 34.0, "limit_c": 92.0},
        "marks": [],
        "compared": "58 C below its limit",
    },
    "next_best": {
        "node": "vm",
        "device": ID,
        "sim": True,
        "observation": 17,
        "values": {"temperature_c": 40.0, "limit_c": 92.0},
        "marks": ["throttled"],
        "compared": "52 C below its limit",
    },
    "flip": f"{ID} would have been chosen at 33 C or below",
}


def test_people_see_the_measurements_that_decided_and_what_would_have_flipped_them() -> None:
    shown = explain.render({**EXPLAINED, "evidence": COOLER}, now_ns=0, width=200)
    assert shown.splitlines()[3:] == [
        "chosen: node vm, GPU-7c65c1e5 (SIM): 58 C below its limit (temperature 34 C, limit 92 C)",
        "next best: node vm, GPU-37ebdcd9 (SIM): 52 C below its limit"
        " (temperature 40 C, limit 92 C, throttled)",
        "instead: GPU-37ebdcd9 would have been chosen at 33 C or below",
    ]
    whole = explain.render({**EXPLAINED, "evidence": COOLER}, now_ns=0, width=200, whole=True)
    assert f"{ID} (SIM): 52 C below its limit" in whole and "observation 17" in whole


def test_scores_are_for_whoever_wants_all() -> None:
    best = {"node": "vm", "compared": "score 51", "values": {"score": 51.0}, "marks": []}
    scored = {"chosen": best}
    assert "score" not in explain.render({**EXPLAINED, "evidence": scored}, now_ns=0)
    assert "score 51" in explain.render({**EXPLAINED, "evidence": scored}, now_ns=0, whole=True)
