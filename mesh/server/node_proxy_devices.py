# SPDX-License-Identifier: Apache-2.0
"""Queries about devices that only their node can answer: readings and topology.

Owns who may see what: every user may see the readings of every device, but only administrators see
the names of the processes on it.
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


def query_of(replica: Replica, request: ReadingsRequest | TopologyRequest) -> DevicesQuery:
    """Return the query to the node; BadRequest or NotFound for a wrong request."""
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
    """Return the user's reply, made of the node's; Unavailable if that cannot be read."""
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
