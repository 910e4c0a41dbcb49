# SPDX-License-Identifier: Apache-2.0
"""Feature levels: which ones this build supports, and the formats that a cluster of each one has.

Pure. A cluster has one level, which its log states and an administrator raises. Owns the rule that
no scheduler goes beyond its range: what leads there is a BeyondRange, which says what is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from stoker.mesh.log.genesis import Formats
from stoker.native.errors import Corrupt


class FeatureRange(NamedTuple):
    """The feature levels that a scheduler supports, both ends included."""

    oldest: int
    newest: int

    def has(self, level: int) -> bool:
        """Return True for a level that is supported."""
        return self.oldest <= level <= self.newest

    @property
    def text(self) -> str:
        """The range as people read it: `1`, or `1-2`."""
        same = self.oldest == self.newest
        return str(self.oldest) if same else f"{self.oldest}-{self.newest}"


FORMATS: Final[Mapping[int, Formats]] = {
    1: Formats(entry=15, snapshot=10, command=7),
    2: Formats(entry=16, snapshot=11, command=7),
    3: Formats(entry=17, snapshot=12, command=7),
    4: Formats(entry=18, snapshot=13, command=7),
}
"""The formats that are written at each level that this build supports; it reads all of them."""
BUILD: Final = FeatureRange(min(FORMATS), max(FORMATS))
"""The levels that this build supports."""


class BeyondRange(Corrupt):
    """A scheduler is led to a feature level that it does not support; nothing is damaged."""

    title = "another version is needed"


def narrowed(newest: int | None) -> FeatureRange:
    """Return the range of this build without the levels above `newest`; None leaves it whole."""
    return BUILD if newest is None else BUILD._replace(newest=min(newest, BUILD.newest))


def check(level: int, supports: FeatureRange, what: str) -> None:
    """Raise BeyondRange for a level outside of a range; `what` has or states it."""
    if not supports.has(level):
        raise BeyondRange(f"{what} {level}, and {needed(level, supports)}")


def needed(level: int, supports: FeatureRange) -> str:
    """Return the words about a range that lacks a level, and what to do about it."""
    todo = "run a stoker there that supports it"
    if BUILD.has(level):
        todo = "take upgrade.newest_level out of its config.toml"
    return f"this scheduler supports {supports.text}: {todo}"
