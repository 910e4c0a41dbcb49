# SPDX-License-Identifier: Apache-2.0
"""Only who holds a device that would do is named to a job that waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import events
from stoker.mesh.server import device_holders, explanation
from stoker.scheduler.effects import Explained
from stoker.scheduler.nouns import DeviceInfo, NodeReport
from stoker.scheduler.reason_codes import Reason
from tests.mesh.bench import Bench

GIB = 1 << 30
CARDS = (
    DeviceInfo("GPU-a", "nvidia", "H200", memory_bytes=141 * GIB),
    DeviceInfo("MI-b", "amd", "MI300X", memory_bytes=192 * GIB),
    DeviceInfo("pocl-0", "pocl", "cpu", kind="cpu"),
)


@pytest.fixture
def bench(tmp_path: Any) -> Bench:
    """Jobs 1, 2 and 3 hold the H200, the MI300X and the CPU device."""
    signer: Identity = identity.create(tmp_path / "s")
    made = Bench(signer).lead()
    node = NodeReport("n1", "boot-1", 1, 8000, 16 * GIB, CARDS)
    made.feed(events.NodeReported(("hello", 0), node))
    for wish in ({"models": ("H200",)}, {"vendors": ("amd",)}, {"device_kind": "cpu"}):
        made.submit(str(wish), gpu_milli=1000, **wish)
    return made


def holders(bench: Bench, **wish: Any) -> tuple[list[int], list[str]]:
    """Return who is said to hold what such a job needs, and whom to cancel."""
    token = f"waits {wish}"
    bench.submit(token, gpu_milli=1000, **wish)
    job = bench.replica.state.book.get(bench.replies[token].job)
    view = explanation.explain_view(bench.replica, job, bench.now)
    named = [reason.data["job"] for reason in view.reasons if reason.code == "holds"]
    return named, [each for each in view.actions if "stoker cancel" in each]


@pytest.mark.parametrize(
    ("wish", "named"),
    [
        ({"models": ("H200",)}, [1]),
        ({"vendors": ("amd",)}, [2]),
        ({"device_kind": "cpu"}, [3]),
        ({}, [1, 2]),
        ({"device_kind": "any"}, [1, 2, 3]),
    ],
)
def test_a_job_is_told_of_those_who_hold_what_it_could_use(
    bench: Bench, wish: dict[str, Any], named: list[int]
) -> None:
    found, cancel = holders(bench, **wish)
    assert found == named
    assert [int(each.rpartition(" ")[2]) for each in cancel] == named


def test_nobody_is_ruled_out_once_no_device_of_the_model_is_there(bench: Bench) -> None:
    for token, wish in (("h200", {"models": ("H200",)}), ("any", {})):
        bench.submit(token, gpu_milli=1000, **wish)
    state = bench.replica.state
    lines = state.core.explain(bench.replies["any"].job)
    job = state.book.get(bench.replies["h200"].job)
    assert _named(device_holders.in_the_way(state, job, lines)) == [1]
    node = NodeReport("n1", "boot-1", 1, 8000, 16 * GIB, CARDS[1:])
    state.book.nodes["n1"] = node
    assert _named(device_holders.in_the_way(state, job, lines)) == [1, 2, 3]


def _named(lines: Sequence[Explained]) -> list[int]:
    return [line.job for line in lines if line.reason == Reason.HOLDS]
