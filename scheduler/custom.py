# SPDX-License-Identifier: Apache-2.0
"""Placements by a user's own function, which scores the nodes that fit; the core checks the result.

The core never calls the function: an exception or an invalid answer is counted, and the job stays
pending. A choice is proposed as Prefer and refused like any other impossible placement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from stoker.native.errors import BadRequest, NotFound
from stoker.scheduler.core import Core
from stoker.scheduler.effects import JobInfo
from stoker.scheduler.hints import Candidate
from stoker.scheduler.records import Prefer

Answer = Sequence[float] | Mapping[int, float] | int | None
"""A score for each candidate in order, or by node (the highest wins, the first of equals), or the
node itself, or None to let the job wait."""
Scoring = Callable[[JobInfo, Sequence[Candidate]], Answer]

FUNCTIONS_MAX = 64


@dataclass
class CallCounts:
    """Outcomes of the calls of one function."""

    calls: int = 0
    chosen: int = 0
    waited: int = 0
    """The calls that returned None or had no candidate."""
    errors: int = 0
    """The calls that raised or returned an invalid answer."""
    last_error: str = ""


@dataclass
class _Registered:
    function: Scoring
    counts: CallCounts = field(default_factory=CallCounts)


class Functions:
    """The scoring functions of one leader, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, _Registered] = {}

    def register(self, name: str, function: Scoring) -> None:
        """Add a function, or replace the one of this name; BadRequest past the limit."""
        if name not in self._by_name and len(self._by_name) == FUNCTIONS_MAX:
            raise BadRequest(f"at most {FUNCTIONS_MAX} scoring functions")
        self._by_name[name] = _Registered(function)

    def names(self) -> list[str]:
        return sorted(self._by_name)

    def counts(self, name: str) -> CallCounts:
        """Return the counts of this function; NotFound if it is not registered."""
        return self._of(name).counts

    def prefer(self, name: str, core: Core, job: int, now_ns: int, seed: int = 0) -> list[Prefer]:
        """Return placements for all tasks of this pending job; empty if it stays pending.

        Raises NotFound for an unknown function. The tasks of a gang are chosen one after the other,
        each with those before it in place.
        """
        registered = self._of(name)
        info = core.job(job)
        if info is None or info.state != "pending":
            return []
        chosen: list[Prefer] = []
        for task in range(info.request.tasks):
            candidates = core.candidates(job, now_ns, seed, chosen)
            picked = _picked(registered, info, candidates)
            if picked is None:
                return []
            chosen.append(
                Prefer(
                    job=job,
                    attempt=info.attempt + 1,
                    node=picked.node,
                    shares=picked.shares,
                    task=task,
                    tasks=info.request.tasks,
                    observations=(picked.observation,) if picked.observation else (),
                    candidates=len(candidates),
                )
            )
        registered.counts.chosen += 1
        return chosen

    def _of(self, name: str) -> _Registered:
        if name not in self._by_name:
            raise NotFound(f"no scoring function is called {name!r}")
        return self._by_name[name]


def _picked(
    registered: _Registered, job: JobInfo, candidates: Sequence[Candidate]
) -> Candidate | None:
    counts = registered.counts
    if not candidates:
        counts.waited += 1
        return None
    counts.calls += 1
    try:
        picked = _read(registered.function(job, tuple(candidates)), candidates)
    except Exception as error:  # user code may raise anything and must not end the leader
        counts.errors += 1
        counts.last_error = f"{type(error).__name__}: {error}"[:200]
        return None
    counts.waited += picked is None
    return picked


def _read(answer: Answer, candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the candidate that an answer selects; ValueError or TypeError if it is invalid."""
    if answer is None:
        return None
    if isinstance(answer, int):
        for candidate in candidates:
            if candidate.node == answer:
                return candidate
        raise ValueError(f"node {answer} is no candidate")
    if isinstance(answer, Mapping):
        pairs = [(float(answer[c.node]), c) for c in candidates if c.node in answer]
    else:
        if len(answer) != len(candidates):
            raise ValueError(f"{len(answer)} scores for {len(candidates)} candidates")
        pairs = [(float(score), c) for score, c in zip(answer, candidates, strict=True)]
    if not all(isfinite(score) for score, _ in pairs):
        raise ValueError("a score is not finite")
    return max(pairs, key=lambda pair: pair[0])[1] if pairs else None
