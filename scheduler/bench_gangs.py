# SPDX-License-Identifier: Apache-2.0
"""Gangs within a level of the topology, as `bench decide` has them: labels of nodes, and requests.

Domains differ in size by one node at most, and neighbours of the list are in different ones, so
that each domain has nodes of every kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stoker.native.errors import BadRequest
from stoker.scheduler.names import name_id
from stoker.scheduler.records import Condition, NodeLabel, Submit
from stoker.scheduler.wire_names import TASKS_MAX, Property, Relation

LEVEL: Final = "rack"


def labels(nodes: Sequence[int], domains: int) -> list[NodeLabel]:
    """Return a label for each node, none for no domains."""
    if domains > len(nodes):
        raise BadRequest(f"{domains} domains need as many nodes, not {len(nodes)}")
    return [
        NodeLabel(node, name_id(f"{LEVEL}={at % domains}"), name_id(LEVEL))
        for at, node in enumerate(nodes)
        if domains
    ]


def within(submits: Sequence[Submit], tasks: int) -> list[Submit]:
    """Return gangs of so many such tasks, each of which stays within one domain."""
    if not 2 <= tasks <= TASKS_MAX:
        raise BadRequest(f"gangs of 2 to {TASKS_MAX} tasks, not {tasks}")
    level = Condition(Property.LEVEL, Relation.IS, name_id(LEVEL))
    return [submit._replace(tasks=tasks, conditions=(level,)) for submit in submits]
