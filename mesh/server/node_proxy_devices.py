# SPDX-License-Identifier: Apache-2.0
"""What users ask of devices that only the node knows: readings of one, and the topology.

Owns who may see what: anybody the readings of any device, but what processes on it are called only
administrators.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.mesh.replica.replica import Replica
from stoker.mesh.wire import queries, schema
from stoker.mesh.wire.queries import DevicesQuery, DevicesReply
from stoker.mesh.wire.schema import ReadingsRequest, ReadingsView, TopologyRequest, TopologyView
from stoker.native.errors import BadRequest, NotFound, Unavailable

ANSWER_S = 3.0


def question(replica: Replica, request: ReadingsRequest | TopologyRequest) -> DevicesQuery:
    """What the node is to be asked; BadRequest or NotFound for what cannot be."""
    report = replica.state.book.nodes.get(request.node)
    if report is None:
        raise NotFound(f"there is no node {request.node}")
    if isinstance(request, TopologyRequest):
        return DevicesQuery("topology")
    if request.device not in [device.id for device in report.devices]:
        raise NotFound(f"node {request.node} has no device {request.device}")
    if len(request.history) > schema.HISTORIES_MAX:
        raise BadRequest(f"at most {schema.HISTORIES_MAX} histories at once")
    return DevicesQuery("readings", request.device, request.history, request.since_ns)


def answer(data: bytes, request: ReadingsRequest | TopologyRequest, *, admin: bool) -> bytes:
    """The node's reply as the user's; Unavailable if it cannot be read."""
    reply = queries.decode_reply(data)
    if not isinstance(reply, DevicesReply):
        raise Unavailable(f"the node answered with {type(reply).__name__}")
    try:
        if isinstance(request, TopologyRequest):
            return schema.encode(msgspec.json.decode(reply.data, type=TopologyView))
        view = msgspec.json.decode(reply.data, type=ReadingsView)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Unavailable(f"the node's answer cannot be read: {error}") from None
    if not admin and "processes" in view.fields:
        fields = {**view.fields, "processes": _nameless(view.fields["processes"])}
        view = msgspec.structs.replace(view, fields=fields)
    return schema.encode(view)


def _nameless(field: schema.FieldView) -> schema.FieldView:
    if not isinstance(field.value, list):
        return field
    rows: list[Any] = [
        {**row, "name": None} if isinstance(row, dict) else row for row in field.value
    ]
    return msgspec.structs.replace(field, value=rows, note="names: for administrators")
