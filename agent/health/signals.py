# SPDX-License-Identifier: Apache-2.0
"""Signals that a card may be sick: each is one occurrence of one kind.

Sources make signals, the table says what each kind means, the verdict counts them. Invariant: a
signal is a fact with its time and the driver's words; what follows from it is decided elsewhere.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

Kind = Literal[
    "xid",  # NVIDIA's driver reports an error by its number
    "lost",  # off the bus, or it has to be reset before it answers
    "silent",  # it was read before, and nothing of it can be any more
    "refused",  # the driver refuses the agent
    "mismatch",  # driver and library are of different versions
    "missing",  # no driver, or it was unloaded
    "hung",  # a call into the driver does not return
    "ecc_corrected",
    "ecc_uncorrected",
    "page_retired",  # a page or row was taken out of use
    "remap_pending",  # rows or pages will be replaced at the next reset
    "remap_failed",  # a row could not be replaced
    "link_down",
    "link_errors",
    "pcie_replays",
    "hot",  # at its slowdown temperature
    "near_shutdown",
    "memory_hot",
    "slowdown",  # the hardware slows itself down
    "brake",  # an external power brake
    "throttle_share",  # heat held the clock back for most of the past seconds
    "stuck_sensor",
    "lost_samples",
    "recovery",  # the driver asks for something: number is RECOVERY's
    "app_fault",  # a program did what the card does not allow
    "engine_hang",  # the driver restarts a part of the card
    "reset_begun",  # the driver resets the card, and whatever runs on it is over
    "reset_failed",
    "wedged",  # the driver gave the card up
    "reset_seen",  # the card was reset; counters began anew
]
KINDS: tuple[Kind, ...] = get_args(Kind)

RESET, NODE = 1, 2
"""Numbers of `recovery`: the card is to be reset; the node, or several cards at once."""


class Signal(NamedTuple):
    """One occurrence, or several that came together."""

    device: str
    kind: Kind
    t_ns: int
    """CLOCK_BOOTTIME."""
    number: int = 0
    """The number of an Xid or of a recovery action; 0 for other kinds."""
    text: str = ""
    """The driver's own words, or the figures."""
    times: int = 1
