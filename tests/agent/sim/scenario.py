# SPDX-License-Identifier: Apache-2.0
"""Scenarios: exact stories that hold as long as their rule does, and fail without it.

A story is played once as the code is shipped, and once for each removal of its rule, when one of
its assertions must fail. A story that cannot be played at all proves nothing: it raises Unplayable,
which is never taken for a failed assertion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.agent.sim.mutants.planting import Mutant, planted

Story = Callable[[], None]
Removal = tuple[Mutant, ...]
"""The faults that together remove a rule; several where each guard would do alone."""


class Scenario(NamedTuple):
    """One story with the rule that it shows; `number` is its row on the page of scenarios."""

    number: int
    rule: str
    test: str
    """The file and the name of the test."""
    removals: tuple[str, ...]
    """The names of the faults, each of which takes the rule away."""


SCENARIOS: list[Scenario] = []
"""Every scenario of the test files that were imported."""


class Unplayable(Exception):
    """The story did not come to the point at which its rule matters."""


def scenario(number: int, rule: str, *removals: Mutant | Removal) -> Callable[[Story], Story]:
    """Make tests of a story: it holds as shipped and fails after each removal."""
    parts = [(each,) if isinstance(each, Mutant) else each for each in removals]
    names = ["-".join(mutant.name for mutant in part) for part in parts]

    def declare(story: Story) -> Story:
        @pytest.mark.parametrize("removed", [(), *parts], ids=["shipped", *names])
        def test(removed: Removal) -> None:
            if removed:
                fails_without(removed, story)
            else:
                story()

        file = story.__module__.rpartition(".")[2]
        SCENARIOS.append(Scenario(number, rule, f"{file}.py::{story.__name__}", tuple(names)))
        test.__name__, test.__doc__ = story.__name__, story.__doc__
        test.__module__ = story.__module__
        played: Story = test
        return played

    return declare


def fails_without(rule: Removal, story: Story) -> None:
    """Play the story without its rule, and require that one of its assertions fails."""
    with planted(*rule):
        try:
            story()
        except AssertionError:
            return
    pytest.fail(f"the story holds without its rule ({rule[0].guard})")
