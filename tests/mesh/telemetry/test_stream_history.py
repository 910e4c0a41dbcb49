# SPDX-License-Identifier: Apache-2.0
"""Discarded messages are told from those that grew old, by the age of its oldest message."""

from __future__ import annotations

from datetime import UTC, datetime

from stoker.mesh.telemetry.stream_history import StreamHistory
from stoker.mesh.telemetry.stream_owner import StreamFigures
from stoker.mesh.wire.telemetry_streams import STREAM_AGE_S, STREAM_BYTES, STREAM_MESSAGE_BYTES

NOW_NS = 1_800_000_000 * 10**9


def figures(
    first: int, age_s: float, messages: int = 10, held: int = STREAM_BYTES - 1000
) -> StreamFigures:
    moment = datetime.fromtimestamp(NOW_NS / 1e9 - age_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return StreamFigures(
        messages=messages, bytes=held, first_seq=first, last_seq=99, first_ts=moment
    )


def test_only_young_messages_count_as_discarded() -> None:
    history = StreamHistory()
    history.note("events", figures(1, 5), NOW_NS)
    assert history.discarded["events"] == 0
    history.note("events", figures(8, STREAM_AGE_S), NOW_NS)
    assert history.discarded["events"] == 0  # they were old
    history.note("events", figures(20, 30), NOW_NS)
    assert history.discarded["events"] == 12
    history.note("events", figures(40, 0, messages=0), NOW_NS)
    assert history.discarded["events"] == 12  # nothing shows how old they were
    history.note("events", figures(1, 1), NOW_NS)
    history.note("events", figures(3, 1), NOW_NS)
    assert history.discarded["events"] == 14  # the stream began anew


def test_a_stream_with_room_has_lost_only_what_grew_old() -> None:
    """All messages of a quiet stream have gone by age before the next one comes, which is young."""
    history = StreamHistory()
    history.note("events", figures(1, 5, held=7000), NOW_NS)
    history.note("events", figures(90, 2, held=7000), NOW_NS)
    assert history.discarded["events"] == 0
    least = STREAM_BYTES - STREAM_MESSAGE_BYTES
    history.note("events", figures(95, 2, held=least), NOW_NS)
    assert history.discarded["events"] == 5


def test_a_stream_that_was_full_when_the_scheduler_began() -> None:
    history = StreamHistory()
    history.note("kernels", figures(500, 3), NOW_NS)
    assert history.discarded["kernels"] == 499
