# SPDX-License-Identifier: Apache-2.0
"""The levels of a build, and the words about one that it lacks."""

from __future__ import annotations

import pytest

from stoker.mesh.log import entry, feature_level
from stoker.mesh.log.feature_level import BUILD, FORMATS, BeyondRange, FeatureRange
from stoker.mesh.replica import snapshots
from stoker.mesh.wire import command


def test_a_build_supports_two_levels_at_least_and_has_the_formats_of_each() -> None:
    assert BUILD.newest > BUILD.oldest
    assert set(FORMATS) == {*range(BUILD.oldest, BUILD.newest + 1)}
    newest = FORMATS[BUILD.newest]
    assert newest == (type(newest))(entry.FORMAT, snapshots.FORMAT, command.FORMAT)


@pytest.mark.parametrize(
    ("newest", "found"),
    [(None, BUILD), (BUILD.newest + 1, BUILD), (1, FeatureRange(BUILD.oldest, 1))],
)
def test_a_pin_only_narrows(newest: int | None, found: FeatureRange) -> None:
    assert feature_level.narrowed(newest) == found


def test_a_level_beyond_a_range_is_refused_in_one_line_that_says_what_is_needed() -> None:
    feature_level.check(2, FeatureRange(1, 2), "it has level")
    with pytest.raises(BeyondRange) as caught:
        feature_level.check(BUILD.newest + 1, BUILD, "log entry 7 states feature level")
    said = caught.value.message
    assert said == (
        f"log entry 7 states feature level {BUILD.newest + 1}, and this scheduler supports"
        f" {BUILD.text}: run a stoker there that supports it"
    )
    with pytest.raises(BeyondRange, match=r"supports 1: take upgrade.newest_level out of its"):
        feature_level.check(2, FeatureRange(1, 1), "log entry 7 states feature level")


def test_a_range_reads_well() -> None:
    assert (FeatureRange(1, 1).text, FeatureRange(1, 2).text) == ("1", "1-2")
