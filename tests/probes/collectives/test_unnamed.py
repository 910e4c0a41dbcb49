# SPDX-License-Identifier: Apache-2.0
"""The conditions by which nobody is named come to the verdict of the rule, and say why not."""

from __future__ import annotations

from random import Random

import msgspec

from stoker.probes.collectives.collective_rows import Collectives
from stoker.probes.collectives.straggler import straggler
from stoker.probes.collectives.unnamed import unmet, unnamed
from tests.probes.collectives.rank_rows import rows


def why(found: Collectives) -> list[str]:
    ranks = {row.rank: row for row in found.ranks}
    passed_ns = max((row.until_ns - row.seen_ns for row in found.ranks), default=0)
    return [*unmet(found.communicators[0], ranks, passed_ns)]


def test_there_is_no_objection_exactly_where_the_rule_names_a_rank() -> None:
    random, named = Random(5), 0
    for _ in range(3000):
        own = [random.uniform(0.4, 0.6) for _ in range(random.randrange(1, 6))]
        own[0] *= random.choice((1.0, 1.1, 1.5))
        found = rows(
            random.choice((1, 9)), own, queued_s=random.choice((0, 0.7)),
            times=random.choice((3, 9, 10, 500)),
        )  # fmt: skip
        assert (straggler(found) is not None) == (why(found) == [])
        assert unnamed(found) == ("; ".join(why(found)) if len(own) > 1 else "")
        named += why(found) == []
    assert 200 < named < 2800


def test_each_condition_that_does_not_hold_is_told_with_both_figures() -> None:
    assert why(rows(9, [5, 5, 5, 6], times=4)) == ["4 operations, 10 are needed"]
    assert why(rows(9, [5])) == ["1 ranks, 2 are needed"]
    assert why(rows(9, [4.0, 5, 5, 5.6])) == [
        "rank 3 is 0.600 s behind, the spread of the others is 1.000 s"
    ]


def test_a_job_without_ranks_that_met_says_so() -> None:
    assert unnamed(Collectives(1, (), (), ())) == ""
    alone = msgspec.structs.replace(rows(9, [5, 5]), communicators=())
    assert unnamed(alone) == "no operation of all ranks was seen"
