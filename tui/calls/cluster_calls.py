# SPDX-License-Identifier: Apache-2.0
"""The requests about the cluster, its nodes and queues, and changes by administrators."""

from __future__ import annotations

import asyncio
from typing import Any

from stoker.mesh.client.client import Client
from stoker.mesh.client.read_choice import ReadChoice
from stoker.mesh.wire import schema
from stoker.native.errors import NotFound
from stoker.tui.calls import views
from stoker.tui.calls.views import ReadRows

Row = dict[str, Any]


async def nodes(state: str | None) -> list[Row]:
    """All nodes."""
    async with Client.open(state) as client:
        return [views.part(node) for node in (await client.nodes()).nodes]


async def node(state: str | None, name: str) -> tuple[Row, list[Row]]:
    """One node and its devices."""
    async with Client.open(state) as client:
        nodes, found = await asyncio.gather(client.nodes(), client.devices())
        for each in nodes.nodes:
            if each.node == name:
                rows = [views.part(device) for device in found.devices if device.node == name]
                return views.part(each), rows
        raise NotFound(f"there is no node {name}", hint="stoker nodes lists them")


async def topology(state: str | None, name: str) -> tuple[Row, list[Row]]:
    """The links between the devices of one node, and the devices."""
    async with Client.open(state) as client:
        view, found = await asyncio.gather(client.topology(name), client.devices())
        return views.part(view), [views.part(each) for each in found.devices if each.node == name]


async def queues(state: str | None, reads: ReadChoice) -> ReadRows:
    """All queues, as the chosen scheduler has them."""
    async with Client.open(state, reads=reads) as client:
        found = await client.queues()
        return ReadRows([views.part(queue) for queue in found.queues], found.position)


async def cluster(state: str | None, reads: ReadChoice) -> Row:
    """The configuration of the cluster."""
    async with Client.open(state, reads=reads) as client:
        return views.part(await client.cluster())


async def settle(state: str | None, noun: str, verb: str, request: schema.Message) -> bool:
    """Send an administrator's request; returns True if it changed anything."""
    async with Client.open(state) as client:
        return (await client.settle(noun, verb, request)).changed
