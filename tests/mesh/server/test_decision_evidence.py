# SPDX-License-Identifier: Apache-2.0
"""The words for the scores of a decision: of the node that was taken, of the next best, and what
would have turned them round."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stoker.mesh.server.decision_evidence import UNSOUGHT, _Words
from stoker.mesh.wire import schema
from stoker.scheduler.hints import COST_ZERO, Evidence, EvidenceSide, Sample, rank_of
from stoker.scheduler.policies import Placement, word_of


def side(node: int, score: int) -> EvidenceSide:
    return EvidenceSide(node, 5, None, 0, 0, Sample(0), score)


def view(how: Placement, *scores: int, unsought: bool = False) -> schema.EvidenceView:
    book = SimpleNamespace(nodes={})
    state = SimpleNamespace(book=book, node_name=lambda number: f"n{number}")
    replica: Any = SimpleNamespace(state=state)
    sides = [side(node, score) for node, score in enumerate(scores, 1)]
    other = sides[1] if len(sides) > 1 else None
    found = Evidence(how, 0, sides[0], other, unsought)
    return _Words(replica, found, "such jobs").view(word_of(how))


@pytest.mark.parametrize(
    ("how", "scores", "said", "flip"),
    [
        (Placement.SCORED, (rank_of(2.5), rank_of(-1.0)), ("2.5", "-1"), "a score above 2.5"),
        (Placement.FGD, (COST_ZERO + 13, COST_ZERO + 40), ("87", "60"), "a score above 87"),
        (Placement.BEST, (COST_ZERO - 256_000, COST_ZERO), ("1", "0"), "a score above 1"),
    ],
)
def test_the_winner_and_the_next_best_have_their_scores(
    how: Placement, scores: tuple[int, int], said: tuple[str, str], flip: str
) -> None:
    found = view(how, *scores)
    assert found.chosen and found.next_best
    assert (found.chosen.node, found.next_best.node) == ("n1", "n2")
    sides = (found.chosen, found.next_best)
    assert tuple(f"{each.values['score']:g}" for each in sides) == said
    for each, score in zip(sides, said, strict=True):
        assert each.compared.startswith(f"score {score}")
    assert found.flip == f"node n2 would have been chosen with {flip}"


def test_equal_scores_are_told() -> None:
    found = view(Placement.SCORED, rank_of(3.0), rank_of(3.0))
    assert found.flip == "node n2 was as good: of equals the first was taken"


def test_no_next_best_is_told() -> None:
    assert view(Placement.BEST, COST_ZERO).flip == ""
    assert view(Placement.BEST, COST_ZERO, unsought=True).flip == UNSOUGHT


def test_a_score_of_free_amounts_claims_no_observation() -> None:
    free, function = view(Placement.BEST, COST_ZERO), view(Placement.SCORED, rank_of(1.0))
    assert free.chosen and function.chosen
    assert (free.chosen.observation, function.chosen.observation) == (None, 5)
