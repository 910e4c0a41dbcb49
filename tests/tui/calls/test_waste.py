# SPDX-License-Identifier: Apache-2.0
"""Wasted device time: what counts for a job, for a share of a device, for a user."""

from __future__ import annotations

from typing import Any

from stoker.tui.calls.waste import UserWaste, Wasted, by_user, wasted
from stoker.tui.render import nouns, tables

HOUR_NS = 3_600_000_000_000


def job(number: int = 7, **fields: Any) -> dict[str, Any]:
    causes = {"held_idle_ns": 3 * HOUR_NS, "kernel_ns": HOUR_NS}
    device = {"id": "gpu-0", "window_ns": 4 * HOUR_NS, "causes": causes}
    made: dict[str, Any] = {"job": number, "user": "alice", "name": "train", "state": "running"}
    made |= {"spec": {"argv": ["/bin/x"], "gpu_milli": 1000, "tasks": 1}}
    return made | {"trace": {"devices": [device], "kernels": []}} | fields


def test_a_running_job_has_the_command_that_ends_it() -> None:
    found = wasted(job(), ())
    assert (found.held_ns, found.idle_ns, found.bottleneck) == (4 * HOUR_NS, 3 * HOUR_NS, "idle")
    assert found.command == "stoker cancel 7"
    assert wasted(job(state="succeeded"), ()).command == ""


def test_a_share_of_a_device_wastes_a_share_of_its_time() -> None:
    half = wasted(job(spec={"argv": ["/bin/x"], "gpu_milli": 500, "tasks": 1}), ())
    assert (half.held_ns, half.idle_ns, half.gpu_milli) == (2 * HOUR_NS, 1.5 * HOUR_NS, 500)


def test_a_gang_wastes_with_all_its_ranks() -> None:
    rank = {"rank": 0, "window_ns": 10, "causes": {"held_idle_ns": 4, "kernel_ns": 6}}
    found = wasted(job(spec={"argv": ["x"], "gpu_milli": 2000, "tasks": 2}), (rank, rank))
    assert (found.held_ns, found.idle_ns, found.gpu_milli) == (20, 8, 4000)


def test_what_is_not_known_is_neither_used_nor_wasted() -> None:
    found = wasted(job(8, trace=None, trace_absent="node n1 does not answer", name=""), ())
    assert (found.held_ns, found.idle_ns, found.name) == (None, None, "x")
    assert found.absent == "node n1 does not answer"
    shown = tables.render(nouns.WASTE, [_row(found)], "table").splitlines()[1]
    assert "node n1 does not answer" in shown and " - " in shown and " 0.00" not in shown


def test_users_come_with_the_most_wasted_first() -> None:
    mine = [wasted(job(), ()), wasted(job(8, trace=None), ())]
    other = [wasted(job(9, user="bob"), ()), wasted(job(10, user="bob"), ())]
    assert by_user([*mine, *other]) == [
        UserWaste("bob", 2, 8 * HOUR_NS, 6 * HOUR_NS, 0),
        UserWaste("alice", 2, 4 * HOUR_NS, 3 * HOUR_NS, 1),
    ]
    assert by_user([]) == []


def test_a_list_fits_80_columns_and_keeps_the_command() -> None:
    row = _row(wasted(job(name="n" * 30, user="u" * 12), ()))
    head, line = tables.render(nouns.WASTE, [row], "table", columns=80).splitlines()
    assert len(line) <= 80 and line.endswith("stoker cancel 7")
    assert "75 %" in line and "3.00 h" in line and "IDLE" in head


def _row(found: Wasted) -> dict[str, Any]:
    return {name: getattr(found, name) for name in Wasted.__annotations__}
