# SPDX-License-Identifier: Apache-2.0
"""Answers to `DevicesQuery`: readings of one device with its history, or the node's topology.

They come from the samplers and from sysfs. Invariant: no driver is called, so that a query about a
card that hangs is answered as quickly as any other, and no answer is larger than CHUNK_BYTES_MAX.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.agent.devices.fields import KEPT
from stoker.agent.devices.readings import plain
from stoker.agent.devices.registry import Devices
from stoker.mesh.wire import schema
from stoker.mesh.wire.queries import CHUNK_BYTES_MAX, DevicesQuery
from stoker.native.errors import BadRequest, NotFound, Refused

QUICK_NS = 10_000_000_000
"""So much history is told in less time than it takes to have a thread do it."""


def is_quick(query: DevicesQuery, now_ns: int) -> bool:
    """Return True if the answer takes so little that the daemon's loop may make it: readings with
    no history or that of the last seconds, as a recorder requests them all the time."""
    recent = not query.history or now_ns - query.since_ns <= QUICK_NS
    return query.what == "readings" and recent


def data(devices: Devices, node: str, query: DevicesQuery) -> bytes:
    """The answer as JSON of `schema.ReadingsView` or `schema.TopologyView`."""
    made = _topology(devices, node) if query.what == "topology" else _readings(devices, node, query)
    encoded = msgspec.json.encode(made)
    if len(encoded) > CHUNK_BYTES_MAX:
        raise Refused(f"the answer has {len(encoded)} bytes, at most {CHUNK_BYTES_MAX}")
    return encoded


def _readings(devices: Devices, node: str, query: DevicesQuery) -> dict[str, Any]:
    sampled = devices.samplers.get(query.device)
    if sampled is None:
        raise NotFound(f"node {node} reads nothing of device {query.device}: it is not there now")
    if len(query.history) > schema.HISTORIES_MAX:
        raise BadRequest(f"at most {schema.HISTORIES_MAX} histories at once")
    found = sampled.readings()
    return {
        "schema": schema.VERSION,
        "node": node,
        "device": found.id,
        "t_ns": found.t_ns,
        "state": found.state,
        "why": found.why,
        "sim": found.sim,
        "fields": {name: plain(field) for name, field in found.fields.items()},
        "history": {
            name: sampled.points(name, query.since_ns) for name in query.history if name in KEPT
        },
    }


def _topology(devices: Devices, node: str) -> dict[str, Any]:
    return {
        "schema": schema.VERSION,
        "node": node,
        **msgspec.to_builtins(devices.topology()),
        "sim": [device.id for device in devices.known if device.sim],
    }
