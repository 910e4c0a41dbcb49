# SPDX-License-Identifier: Apache-2.0
"""Remedies for a pending job, by the core's reason for its wait.

Owns the one table from reason to remedy; it names possible actions and recommends none.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from stoker.scheduler.reasons import Reason


class Remedy(StrEnum):
    """An action that somebody can take; the names are part of the outer interface."""

    WAIT = "wait"
    ASK_FOR_LESS = "ask_for_less"
    RAISE_PRIORITY = "raise_priority"
    CANCEL_HOLDER = "cancel_holder"
    CHANGE_QUEUE = "change_queue"
    RAISE_LIMIT = "raise_limit"
    CHANGE_MODELS = "change_models"
    CHANGE_LABELS = "change_labels"
    TOLERATE_TAINT = "tolerate_taint"
    END_RESERVATION = "end_reservation"
    CHANGE_GROUP = "change_group"
    ALLOW_ANY_LINK = "allow_any_link"
    ADD_NODES = "add_nodes"
    BRING_NODES_UP = "bring_nodes_up"
    FREE_DEVICES = "free_devices"
    SAY_WHERE = "say_where"
    CANCEL_IT = "cancel_it"
    FORBID_PREEMPTION = "forbid_preemption"
    CHANGE_KIND = "change_kind"
    MIX_VENDORS = "mix_vendors"
    SAY_ESTIMATE = "say_estimate"
    CHANGE_ORDER = "change_order"
    CHANGE_CONDITIONS = "change_conditions"
    ALLOW_ANY_NUMA = "allow_any_numa"


_LESS = (Remedy.WAIT, Remedy.ASK_FOR_LESS, Remedy.CANCEL_HOLDER)

REMEDIES: Final[dict[int, tuple[Remedy, ...]]] = {
    Reason.NO_NODES: (Remedy.ADD_NODES,),
    Reason.NODES_DOWN: (Remedy.BRING_NODES_UP,),
    Reason.BEHIND: (Remedy.WAIT, Remedy.RAISE_PRIORITY),
    Reason.HELD_BY_ORDER: (Remedy.SAY_ESTIMATE, Remedy.RAISE_PRIORITY, Remedy.CHANGE_ORDER),
    Reason.DEVICES_UNAVAILABLE: (Remedy.FREE_DEVICES,),
    Reason.NEEDS_DEVICES: _LESS,
    Reason.NEEDS_SHARE: _LESS,
    Reason.NEEDS_CPU: _LESS,
    Reason.NEEDS_MEMORY: _LESS,
    Reason.NEEDS_DEVICE_MEMORY: _LESS,
    Reason.HOLDS: (Remedy.WAIT, Remedy.CANCEL_HOLDER),
    Reason.NODE_JOBS_FULL: (Remedy.WAIT,),
    Reason.GANG_SHORT: (Remedy.WAIT, Remedy.ASK_FOR_LESS, Remedy.ADD_NODES),
    Reason.WAITS_UNTIL: (Remedy.WAIT,),
    Reason.WAITS_FOR_JOB: (Remedy.WAIT,),
    Reason.AFTER_FAILED: (Remedy.CANCEL_IT,),
    Reason.QUEUE_AT_LIMIT: (Remedy.WAIT, Remedy.CHANGE_QUEUE, Remedy.RAISE_LIMIT),
    Reason.QUEUE_TURN: (Remedy.WAIT, Remedy.CHANGE_QUEUE),
    Reason.USER_TURN: (Remedy.WAIT, Remedy.RAISE_PRIORITY),
    Reason.NEEDS_MODEL: (Remedy.CHANGE_MODELS, Remedy.ADD_NODES),
    Reason.NEEDS_CONDITION: (Remedy.CHANGE_CONDITIONS,),
    Reason.NEEDS_CONDITIONS: (Remedy.CHANGE_CONDITIONS, Remedy.ADD_NODES),
    Reason.NEEDS_LABELS: (Remedy.CHANGE_LABELS, Remedy.ADD_NODES),
    Reason.NEEDS_LEVEL: (Remedy.CHANGE_LABELS, Remedy.ADD_NODES),
    Reason.NEEDS_TOLERATION: (Remedy.TOLERATE_TAINT,),
    Reason.NEEDS_RESERVATION: (Remedy.WAIT, Remedy.CHANGE_QUEUE, Remedy.END_RESERVATION),
    Reason.NEEDS_GROUP: (Remedy.WAIT, Remedy.CHANGE_GROUP),
    Reason.NEEDS_ONE_VENDOR: (Remedy.WAIT, Remedy.ASK_FOR_LESS, Remedy.MIX_VENDORS),
    Reason.NEVER_AS_IT_IS: (Remedy.CHANGE_KIND, Remedy.ASK_FOR_LESS, Remedy.ADD_NODES),
    Reason.NEEDS_LINK: (Remedy.WAIT, Remedy.ALLOW_ANY_LINK),
    Reason.NEEDS_NUMA: (Remedy.WAIT, Remedy.ALLOW_ANY_NUMA),
    Reason.NEEDS_CHOICE: (Remedy.SAY_WHERE,),
    Reason.ROOM_BEING_MADE: (Remedy.WAIT,),
    Reason.WAS_PREEMPTED: (Remedy.FORBID_PREEMPTION, Remedy.RAISE_PRIORITY),
}
"""The remedies by reason, the least intrusive first."""
