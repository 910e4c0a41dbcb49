# SPDX-License-Identifier: Apache-2.0
"""Fields of the core's records that are more than one number, against plain loops."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.scheduler.records import Submit
from stoker.scheduler.wire_fields import Condition, shortened
from stoker.scheduler.wire_names import JOB_CONDITIONS_MAX, SUBMIT_LEAST

ROW = 16


def plainly_shortened(raw: bytes) -> bytes:
    size = len(raw)
    while size > SUBMIT_LEAST and not any(raw[size - ROW : size]):
        size -= ROW
    return size.to_bytes(2, "little") + raw[2:size]


@given(st.integers(0, JOB_CONDITIONS_MAX), st.lists(st.integers(0, JOB_CONDITIONS_MAX * ROW - 1)))
def test_a_record_ends_with_the_last_condition_that_says_something(
    rows: int, marks: list[int]
) -> None:
    tail = bytearray(JOB_CONDITIONS_MAX * ROW)
    for mark in marks:
        tail[mark % max(1, rows * ROW)] = 7
    raw = bytes(range(256)) + bytes(SUBMIT_LEAST - 256) + bytes(tail)
    assert shortened(raw) == plainly_shortened(raw)


def test_a_submit_without_conditions_is_as_short_as_can_be() -> None:
    assert len(Submit(1).pack()) == SUBMIT_LEAST
    one = Submit(1, conditions=(Condition(1, 1, 0, 1),)).pack()
    assert len(one) == SUBMIT_LEAST + ROW
    assert Submit.unpack(one) == Submit(1, conditions=(Condition(1, 1, 0, 1),))
