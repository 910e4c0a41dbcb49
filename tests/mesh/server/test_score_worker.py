# SPDX-License-Identifier: Apache-2.0
"""The process of a scoring function answers scores or a kind of failure, and never nothing."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.mesh.server.score_worker import answered, loaded

REQUEST: dict[str, Any] = {"job": {}, "candidates": [{"node": "a"}, {"node": "b"}]}
UNSAYABLE = """
class Mute(Exception):
    def __str__(self):
        raise RuntimeError

def score(job, candidates):
    raise Mute
"""
NUMBERLESS = """
class Number(float):
    def __float__(self):
        raise RuntimeError("no number")

def score(job, candidates):
    return [Number(1), Number(2)]
"""


def test_scores_come_by_row_or_by_name() -> None:
    rows = loaded("def score(job, candidates): return [1, None]", "rows")
    names = loaded("def score(job, candidates): return {'b': 2}", "names")
    assert answered(rows, REQUEST) == {"scores": [1.0, None]}
    assert answered(names, REQUEST) == {"scores": [None, 2.0]}


@pytest.mark.parametrize(
    ("source", "kind", "said"),
    [
        (UNSAYABLE, "raised", "Mute"),
        (NUMBERLESS, "invalid", "RuntimeError: no number"),
        ("def score(job, candidates): return [10**400] * 2", "invalid", "OverflowError"),
        ("def score(job, candidates): return {'b': 1, 3: 1}", "invalid", "3 is no candidate"),
        ("def score(job, candidates): raise SystemExit", "raised", "SystemExit"),
    ],
)
def test_whatever_a_function_does_is_answered(source: str, kind: str, said: str) -> None:
    answer = answered(loaded(source, "bad"), REQUEST)
    assert said in answer[kind]
