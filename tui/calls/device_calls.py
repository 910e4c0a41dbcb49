# SPDX-License-Identifier: Apache-2.0
"""The requests about devices: their list and the readings of each.

If a node does not answer, only its own devices lack readings, and each gives the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from stoker.native.errors import BadRequest, NotFound, StokerError
from stoker.tui.calls import views

Row = dict[str, Any]
AT_ONCE = 16
"""The number of requests for readings in flight at once."""
PATIENCE_S = 3.0
"""The longest delay of the whole list by a node that does not answer."""


async def devices(state: str | None) -> list[Row]:
    """All devices, as their nodes last observed them."""
    async with Client.open(state) as client:
        return [views.part(device) for device in (await client.devices()).devices]


async def read_devices(state: str | None) -> list[Row]:
    """All devices with their readings: `state`, `why` and `fields`."""
    async with Client.open(state, patience_s=PATIENCE_S) as client:
        rows = [views.part(device) for device in (await client.devices()).devices]
        gate = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(_fill(client, row, gate) for row in rows))
        return rows


async def _fill(client: Client, row: Row, gate: asyncio.Semaphore) -> None:
    async with gate:
        try:
            view = views.part(await client.readings(row["node"], row["id"]))
        except StokerError as error:
            row |= {"state": "unknown", "why": error.message, "fields": {}}
            return
    row |= {"state": view["state"], "why": view["why"], "fields": view["fields"]}


async def one_device(client: Client, name: str) -> schema.DeviceView:
    """The device named by its id, the beginning of its id, NODE:INDEX or NODE:ID."""
    found = (await client.devices()).devices
    node, _, rest = name.rpartition(":")
    chosen = (
        [d for d in found if d.id == name]
        or [d for d in found if node == d.node and rest in (d.id, str(d.index))]
        or [d for d in found if node in ("", d.node) and d.id.startswith(rest)]
    )
    if not chosen:
        raise NotFound(f"there is no device {name}", hint="stoker devices lists them")
    if len(chosen) > 1:
        names = ", ".join(f"{d.node}:{d.index}" for d in chosen[:4])
        raise BadRequest(f"{name} is the beginning of several devices: {names}")
    return chosen[0]


async def metrics(
    state: str | None, name: str, history: tuple[str, ...], every_s: float | None
) -> AsyncIterator[tuple[schema.DeviceView, Row]]:
    """The device and its readings, repeated every `every_s` seconds; None reads once."""
    async with Client.open(state) as client:
        device = await one_device(client, name)
        while True:
            yield device, views.part(await client.readings(device.node, device.id, history))
            if every_s is None:
                return
            await asyncio.sleep(every_s)
