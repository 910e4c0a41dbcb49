# SPDX-License-Identifier: Apache-2.0
"""Ranks that keep others waiting, in the report and in the explanation of their job."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from stoker.tui.render import explain, rank_troubles, report, text

S = 1_000_000_000
SINCE_NS = 1_700_000_000 * S
AT = datetime.fromtimestamp(SINCE_NS / S).strftime("%H:%M:%S")


def trouble(**fields: Any) -> dict[str, Any]:
    return {
        "rank": 6, "kind": "slow", "node": "n2", "task": 6, "devices": ["GPU-1"], "sim": True,
        "text": "rank 6 of 8: in 152 operations its own work took 20 % longer", "longer": 0.2,
        "since_ns": SINCE_NS, "named_ns": SINCE_NS + 3 * S, "lag_ns": 0, **fields,
    }  # fmt: skip


def said(*troubles: dict[str, Any]) -> list[tuple[str, str]]:
    return list(rank_troubles.sentences({"job": 7, "troubles": troubles}))


def test_a_sentence_has_rank_node_device_part_and_time() -> None:
    assert said(trouble()) == [
        (
            "slow",
            "rank 6 on n2, GPU-1 (SIM): rank 6 of 8: in 152 operations its own work took 20 %"
            f" longer; since {AT}, named after 3 s",
        )
    ]
    hung = trouble(kind="hung", task=1, devices=[], sim=False, text="it does not come")
    assert said(hung)[0] == (
        "hung", f"rank 6 (task 1) on n2: it does not come; since {AT}, named after 3 s"
    )  # fmt: skip


def test_a_judgement_that_came_late_for_want_of_a_cpu_says_so() -> None:
    ((_, late),) = said(trouble(lag_ns=S))
    assert late.endswith("named after 3 s (1 s of it without a CPU)")
    ((_, little),) = said(trouble(lag_ns=S // 10))
    assert little.endswith("named after 3 s")


def test_there_is_a_bound() -> None:
    rows = said(*[trouble()] * 20)
    assert len(rows) == rank_troubles.TROUBLES_MAX + 1
    assert rows[-1] == ("", "and 12 more: stoker job 7 -o json")


@pytest.mark.parametrize("devices", [["GPU-1"], ["GPU-" + "9" * 40] * 8])
def test_they_stand_in_report_and_explanation_within_the_width(devices: list[str]) -> None:
    told = [trouble(devices=devices), trouble(kind="hung", rank=3, task=0)]
    job = {
        "job": 7, "state": "running", "user": "alice", "times": {}, "troubles": told,
        "spec": {"argv": ["train"], "gpu_milli": 1000},
    }  # fmt: skip
    explained = {
        "job": 7, "state": "running", "summary": "runs", "reasons": [], "actions": [],
        "troubles": told,
    }  # fmt: skip
    for shown in (report.render(job), explain.render(explained, now_ns=0)):
        assert "slow rank" in shown and "hung rank" in shown and "rank 3 (task 0) on n2" in shown
        assert max(map(text.cells, shown.splitlines())) <= text.PAGE
