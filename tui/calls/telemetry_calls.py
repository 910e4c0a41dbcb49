# SPDX-License-Identifier: Apache-2.0
"""Reads telemetry of several kinds as one story: what was kept, then what follows.

Owns the order, which is that of the broker's clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from stoker.mesh.client.client import Client
from stoker.mesh.client.kept_telemetry import KindReader, Told
from stoker.mesh.wire.telemetry import TelemetryKind

FOLLOW_EVERY_S = 0.5
"""Seconds between two readings of a kind while it is followed."""


async def told(
    client: Client, kinds: Sequence[TelemetryKind], since_s: float, *, follow: bool
) -> AsyncIterator[Told]:
    """Yield all that is kept of these kinds since then, oldest first; then what follows, for ever,
    if `follow`."""
    readers = [KindReader(kind, since_s) for kind in kinds]
    while True:
        while True:
            for reader in readers:
                while reader.more and not reader.told:
                    await reader.read(client)
            first = min((each for each in readers if each.told), key=_oldest, default=None)
            if first is None:
                break
            yield first.told.popleft()
        if not follow:
            return
        await asyncio.sleep(FOLLOW_EVERY_S)
        for reader in readers:
            reader.more = True


def _oldest(reader: KindReader) -> int:
    return reader.told[0].t_ns
