# SPDX-License-Identifier: Apache-2.0
"""Jobs that may run once only stay off nodes that cannot freeze them, and are told so."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica.works import fence
from stoker.mesh.replica.works.fence import FENCE_ID, FENCE_TAINT
from stoker.mesh.server import cluster_views, explanation
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import JobSpec
from stoker.scheduler.wire_names import JOB_LABELS_MAX
from tests.mesh.bench import Bench

WHY = "the watchdog does not look"


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(Path(tmp_path_factory.mktemp("k")) / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    return Bench(signer).lead().hello("n1", unfenced=WHY)


def tainted(bench: Bench, node: str) -> bool:
    labels = bench.replica.state.core.labels(name_id(node))
    return any(each.label == FENCE_ID and each.taint for each in labels)


def node_of(bench: Bench, token: str, **spec: object) -> str | None:
    bench.submit(token, **spec)
    decision = bench.replica.state.book.get(bench.replies[token].job).decision
    return decision.node if decision is not None else None


def test_the_only_node_takes_every_job(bench: Bench) -> None:
    assert not tainted(bench, "n1")
    assert node_of(bench, "once") == "n1"


def test_beside_another_node_it_takes_only_what_may_run_again(bench: Bench) -> None:
    bench.hello("n2", unfenced=WHY)
    assert tainted(bench, "n1") and tainted(bench, "n2")
    assert node_of(bench, "once") is None
    assert node_of(bench, "again", retries=1) in ("n1", "n2")
    assert node_of(bench, "preempted", preemptible=True) in ("n1", "n2")
    assert node_of(bench, "meant", tolerate=(FENCE_TAINT,)) in ("n1", "n2")
    bench.hello("n2", incarnation=2)
    assert tainted(bench, "n1") and not tainted(bench, "n2")
    bench.tick(1.0)
    decision = bench.replica.state.book.get(bench.replies["once"].job).decision
    assert decision is not None and decision.node == "n2"


def test_a_job_that_waits_for_a_fence_says_so(bench: Bench) -> None:
    bench.hello("n2", unfenced=WHY)
    bench.submit("once")
    job = bench.replies["once"]
    view = explanation.explain_view(bench.replica, job, bench.now)
    reason = next(each for each in view.reasons if each.code == "needs_toleration")
    assert reason.text == "nodes that cannot freeze a job which may run once only: 2"
    assert explanation.RUN_AGAIN in view.actions
    (first, _) = cluster_views.node_list(bench.replica, bench.now).nodes
    assert first.taints == (FENCE_TAINT,)


def test_the_taints_that_a_user_tolerates_go_first() -> None:
    own = tuple(f"k{number}=v" for number in range(JOB_LABELS_MAX))
    assert fence.tolerations(JobSpec(("x",), tolerate=own, retries=1)) == own
    one = JobSpec(("x",), tolerate=own[:1], retries=1)
    assert fence.tolerations(one) == (*own[:1], FENCE_TAINT)
    assert fence.tolerations(JobSpec(("x",), tolerate=own[:1])) == own[:1]
