# SPDX-License-Identifier: Apache-2.0
"""Other limits for a state that exists: it is the same state, with more or less room."""

from __future__ import annotations

from random import Random

import pytest

from stoker.native.errors import BadRequest, Refused
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.records import NodeUp, Term
from tests.scheduler import streams
from tests.scheduler.pair import run


@pytest.mark.parametrize("seed", range(6))
def test_a_core_that_grew_and_shrank_again_has_the_same_bytes(seed: int) -> None:
    core = run(Random(seed), 400, streams.SMALL, decides=bool(seed % 2)).core
    larger = Limits(*(3 * limit + 1 for limit in core.limits))
    grown = core.resized(larger)
    assert grown.limits == larger and grown.check() == ""
    assert grown.counters() == core.counters()
    assert grown.resized(core.limits).snapshot() == core.snapshot()
    assert Core.restore(grown.snapshot()).limits == larger


def test_there_is_room_for_as_many_as_the_new_limit() -> None:
    core = Core(Limits(nodes=2, devices=4))

    def join(number: int) -> bool:
        request = NodeUp(number, 1, 1, 8000, 1 << 30, 1)
        proposal = core.propose([request], 1)
        core.apply(proposal.commands, 1)
        return not proposal.rejected

    core.apply(core.propose([Term(1, 1)], 1).commands, 1)
    assert [join(number) for number in (1, 2, 3)] == [True, True, False]
    core = core.resized(core.limits._replace(nodes=3))
    assert [join(number) for number in (3, 4)] == [True, False]
    with pytest.raises(Refused, match="does not fit"):
        core.resized(core.limits._replace(nodes=2))
    for wrong in (0, 1 << 31):
        with pytest.raises(BadRequest):
            core.resized(core.limits._replace(nodes=wrong))
    assert [join(number) for number in (1, 4)] == [False, False]
