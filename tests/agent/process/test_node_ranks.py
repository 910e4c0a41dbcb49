# SPDX-License-Identifier: Apache-2.0
"""A rank keeps others waiting, and its job has a rule for that."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, Literal, cast

import msgspec
import pytest

from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.jobs.steps import Faulted
from stoker.agent.process.node_ranks import NO_CORDON, NodeRanks, RankRule
from stoker.agent.tracing.rank_notice import RankNotice
from stoker.agent.tracing.rank_watch import TroubledRank
from stoker.agent.tracing.trace_thread import TraceThread
from stoker.probes.collectives.rank_judge import RankTrouble

HUNG = RankTrouble("hung", (3,), "world", "MPI_Barrier #7: ranks 0-2 wait since 3.0 s for rank 3")


def notice(
    rule: str,
    *,
    home: bool = True,
    over: bool = False,
    patience_s: int = 3,
    trouble: RankTrouble = HUNG,
) -> RankNotice:
    start = StartRecord(
        7, 1, 3, 99, 1, 0, 5.0, devices=("gpu-3",), rank_trouble=rule, rank_patience_s=patience_s
    )
    return RankNotice(
        TroubledRank(11, 3, (10, 11), trouble, over), start if home else None, (start,)
    )


class Node:
    """The rule's surroundings, with what it did."""

    def __init__(self, *, cordon: bool = True) -> None:
        self.lives = True
        self.ended: list[str] = []
        self.accused: list[tuple[str, bool]] = []
        tracer = SimpleNamespace()
        self.ranks = NodeRanks(
            cast(TraceThread, cast(Any, tracer)),
            RankRule(cordon),
            lives=lambda key: self.lives,
            accuse=lambda device, text, *, cordon: self.accused.append((device, cordon)),
            post=lambda event: self.ended.append(cast(Faulted, event).reason),
        )
        assert tracer.ranks == self.ranks.notice


async def passed() -> None:
    """Let what is due now happen."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_the_reason_names_rank_device_and_operation() -> None:
    act = RankRule(cordon=True).act(notice("cordon"))
    assert act == (True, True, f"rank 3 on device gpu-3: {HUNG.text}")
    assert RankRule().act(notice("cordon")) == (True, False, f"{act.reason}; {NO_CORDON}")
    assert RankRule().act(notice("restart", home=False)).reason == f"rank 3: {HUNG.text}"
    assert not RankRule(cordon=True).act(notice("warn")).ends


@pytest.mark.parametrize(
    ("rule", "ended", "accused"),
    [
        ("none", 0, []),
        ("warn", 0, []),
        ("restart", 1, [("gpu-3", False)]),
        ("cordon", 1, [("gpu-3", True)]),
    ],
)
async def test_each_rule_does_what_it_says(
    rule: str, ended: int, accused: list[tuple[str, bool]]
) -> None:
    node = Node()
    node.ranks.notice(notice(rule))
    await passed()
    assert (len(node.ended), node.accused) == (ended, accused)
    assert node.ranks.counters["ranks_hung"] == (rule != "none")


async def test_a_trouble_that_is_over_in_time_has_no_consequence() -> None:
    node = Node()
    node.ranks.notice(notice("restart"))
    node.ranks.notice(notice("restart", over=True))
    await passed()
    assert node.ended == [] and node.ranks.counters["ranks_well"] == 1


async def test_nobody_is_accused_for_an_attempt_that_is_gone() -> None:
    node = Node()
    node.lives = False
    node.ranks.notice(notice("cordon"))
    await passed()
    assert node.ended == [] and node.accused == []


async def test_an_impatient_job_is_acted_on_before_a_patient_one() -> None:
    node = Node()
    node.ranks.notice(notice("restart", patience_s=86_400))
    await passed()
    assert node.ended == []
    node.ranks.notice(notice("restart", patience_s=3))
    await passed()
    assert len(node.ended) == 1


@pytest.mark.parametrize(("kind", "ended"), [("hung", 1), ("slow", 0)])
async def test_patience_is_that_with_a_wait_and_not_with_the_word_of_it(
    kind: Literal["hung", "slow"], ended: int
) -> None:
    """The word of a wait of 20 s came late; how long a rank was slow is not known so well."""
    since_ns = time.monotonic_ns() - 20_000_000_000
    trouble = msgspec.structs.replace(HUNG, kind=kind, since_ns=since_ns)
    node = Node()
    node.ranks.notice(notice("restart", patience_s=12, trouble=trouble))
    await passed()
    assert len(node.ended) == ended
