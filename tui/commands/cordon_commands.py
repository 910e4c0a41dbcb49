# SPDX-License-Identifier: Apache-2.0
"""The verbs `cordon` and `uncordon`, by which administrators keep new jobs off a device.

`mesh/server/administration.py` checks and applies the request; here the device is found by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stoker.native.errors import BadRequest, NotFound
from stoker.tui.commands.replies import call
from stoker.tui.options.verb_options import node_option
from stoker.tui.render import text

if TYPE_CHECKING:
    from stoker.mesh.client.client import Client


@click.command("cordon")
@click.argument("device", metavar="NODE:DEVICE")
@click.option("--reason", default="", help="Reason to show with the device.")
@node_option
def cordon_command(device: str, reason: str, state: str | None) -> None:
    """Keep new jobs off a device, named by its id or index; running jobs continue."""
    call(_settle(state, device, "cordon", reason))


@click.command("uncordon")
@click.argument("device", metavar="NODE:DEVICE")
@node_option
def uncordon_command(device: str, state: str | None) -> None:
    """Let jobs onto a device again, unless its node finds it faulty."""
    call(_settle(state, device, "uncordon", ""))


async def _settle(state: str | None, name: str, verb: str, reason: str) -> None:
    from stoker.mesh.client.client import Client
    from stoker.mesh.wire import schema

    async with Client.open(state) as client:
        node, device = await _meant(client, name)
        request: schema.Message
        if verb == "cordon":
            request = schema.DeviceCordonRequest(node=node, device=device, reason=reason)
        else:
            request = schema.DeviceUncordonRequest(node=node, device=device)
        changed = (await client.settle("device", verb, request)).changed
        listed = (await client.devices()).devices
    view = next((each for each in listed if (each.node, each.id) == (node, device)), None)
    said = {"cordon": "cordoned", "uncordon": "not cordoned"}[verb]
    sim = " (SIM)" if view is not None and view.sim else ""
    click.echo(text.clean(f"device {node}:{device}{sim}: {said}{'' if changed else ' already'}"))
    if view is not None and verb == "uncordon" and view.unavailable:
        click.echo(text.clean(f"it still gets no jobs: {view.unavailable}"))


async def _meant(client: Client, name: str) -> tuple[str, str]:
    """The node and id of a device; an unlisted one is passed on, since it may be cordoned."""
    from stoker.tui.calls import device_calls

    try:
        found = await device_calls.one_device(client, name)
    except NotFound:
        node, colon, device = name.partition(":")
        if not colon or not node or not device:
            raise BadRequest(f"{name[:80]!r} is no NODE:DEVICE") from None
        return node, device
    return found.node, found.id
