# SPDX-License-Identifier: Apache-2.0
"""The place of a new stream among the brokers of a cluster, by the tag that each broker has.

Pure. Owns that a stream is placed where its files are. JetStream looks at the place when it makes a
stream; one that gets more copies later names none, so the first copy stays where it is.
"""

from __future__ import annotations

import msgspec


class StreamPlace(msgspec.Struct, frozen=True):
    """The brokers that may keep a stream."""

    tags: tuple[str, ...]


def tag(broker: str) -> str:
    """Return the tag of the broker of this name."""
    return f"server:{broker}"


def on_broker(broker: str) -> StreamPlace | None:
    """Return the place of a stream on one broker; None, which is any, without a name."""
    return StreamPlace((tag(broker),)) if broker else None
