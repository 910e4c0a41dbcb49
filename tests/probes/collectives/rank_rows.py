# SPDX-License-Identifier: Apache-2.0
"""Rows of ranks as tests make them: what each took for itself is all that differs."""

from __future__ import annotations

from stoker.probes.collectives.collective_rows import (
    Collectives,
    CommunicatorRow,
    MemberRow,
    RankRow,
)

S = 1_000_000_000


def rows(
    at_s: float, own_s: list[float], *, queued_s: float = 0.0, times: int = 100
) -> Collectives:
    members = tuple(MemberRow(rank, 1, 0, S) for rank in range(len(own_s)))
    ranks = tuple(
        RankRow(
            rank, 1, False, 1, 1, 1, 0, 0, 0, 1, round(at_s * S) + 1, round(queued_s * S),
            round(own * S),
        )
        for rank, own in enumerate(own_s)
    )  # fmt: skip
    row = CommunicatorRow("world", len(members), True, times, 0, members)
    return Collectives(round(at_s * S), ranks, (row,), ())
