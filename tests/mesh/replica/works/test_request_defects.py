# SPDX-License-Identifier: Apache-2.0
"""Defects are answered and counted each time, and logged once."""

from __future__ import annotations

import structlog
from structlog.testing import capture_logs

from stoker.mesh.replica.works.request_defects import PLACES_MAX, Defects


def broken(kind: type[Exception] = ZeroDivisionError) -> Exception:
    try:
        raise kind("seven")
    except kind as error:
        return error


def test_a_place_is_logged_once_and_counted_each_time() -> None:
    structlog.reset_defaults()
    defects = Defects()
    with capture_logs() as said:
        answers = [defects.met(broken(), "job.get of alice") for _ in range(3)]
        defects.met(broken(KeyError), "job.list of bob")
    assert [answer.code for answer in answers] == ["internal"] * 3
    assert all("nothing was changed" in answer.message for answer in answers)
    assert [line["request"] for line in said] == ["job.get of alice", "job.list of bob"]
    assert all(isinstance(line["exc_info"], Exception) for line in said)
    assert sorted(defects.counts.values()) == [1, 3]


def test_places_are_bounded() -> None:
    structlog.reset_defaults()
    defects = Defects()
    with capture_logs() as said:
        for number in range(PLACES_MAX + 50):
            defects.met(broken(type(f"Error{number}", (Exception,), {})), "job.get")
    assert (len(defects.counts), len(said)) == (PLACES_MAX, PLACES_MAX)
