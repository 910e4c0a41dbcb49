# SPDX-License-Identifier: Apache-2.0
"""The round-trip time between two members, from their network coordinates (Vivaldi).

Pure. Owns when an estimate is one: until both coordinates have an error below ERROR_MAX, the time
is unknown. Source: Dabek et al., Vivaldi (SIGCOMM 2004), with the height and adjustment of Serf.
"""

from __future__ import annotations

import math

from stoker.mesh.gossip.serf_records import SerfCoordinate

ERROR_MAX = 0.3
"""A coordinate begins with an error of 1.5, which falls as a member exchanges messages."""


def round_trip_s(one: SerfCoordinate | None, other: SerfCoordinate | None) -> float | None:
    """Return the estimated round-trip time in seconds; None while it is unknown."""
    if one is None or other is None or not (_is_settled(one) and _is_settled(other)):
        return None
    a, b = one.vec or [], other.vec or []
    if len(a) != len(b) or not a:
        return None
    raw = math.dist(a, b) + one.height + other.height
    adjusted = raw + one.adjustment + other.adjustment
    seconds = adjusted if adjusted > 0.0 else raw
    return seconds if math.isfinite(seconds) and seconds >= 0.0 else None


def _is_settled(coordinate: SerfCoordinate) -> bool:
    return 0.0 <= coordinate.error < ERROR_MAX  # false for NaN as well
