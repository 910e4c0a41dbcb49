# SPDX-License-Identifier: Apache-2.0
"""Signals that a card may be sick: each is one occurrence of one kind.

Sources make signals, the verdict counts them, and the table says what each kind leads to.
Invariant: a signal is a fact with its time and the driver's words, and never holds a decision.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

Kind = Literal[
    "xid",  # NVIDIA's driver reports an error by its number
    "lost",  # the card is off the bus, or has to be reset before it answers
    "silent",  # nothing of the card can be read any more, though it was read before
    "refused",  # the driver refuses the agent
    "mismatch",  # driver and library are of different versions
    "missing",  # the driver is not loaded
    "hung",  # a call into the driver does not return
    "ecc_corrected",
    "ecc_uncorrected",
    "page_retired",  # a page or row was taken out of use
    "remap_pending",  # rows or pages will be replaced at the next reset
    "remap_failed",  # a row could not be replaced
    "link_down",
    "link_errors",
    "pcie_replays",
    "hot",  # the die is at its slowdown temperature
    "near_shutdown",
    "memory_hot",
    "slowdown",  # the hardware slows itself down
    "brake",  # an external power brake slows the card down
    "throttle_share",  # heat slowed the clocks for most of the past seconds
    "stuck_sensor",
    "lost_samples",
    "recovery",  # the driver asks for a reset (number RESET) or for a restart (number NODE)
    "app_fault",  # a program did something that the card does not allow
    "engine_hang",  # a part of the card hung, and the driver restarts it
    "reset_begun",  # the driver resets the card, and whatever runs on it is over
    "reset_failed",
    "wedged",  # the driver gave the card up
    "reset_seen",  # the card was reset, so its counters began anew
    "rank_late",  # a rank on it kept the others of its job waiting
    "rank_cordon",  # as before, and its job and the node ask that it gets no more jobs
]
KINDS: tuple[Kind, ...] = get_args(Kind)

RESET, NODE = 1, 2
"""Numbers of `recovery`: RESET wants the card reset; NODE wants the node, or several of its cards,
reset together."""


class Signal(NamedTuple):
    """`times` occurrences of one kind that were noticed together."""

    device: str
    kind: Kind
    t_ns: int
    """The time of the occurrence, CLOCK_BOOTTIME."""
    number: int = 0
    """The number of an Xid or of a recovery action; 0 for other kinds."""
    text: str = ""
    """The driver's own words, or the readings that show the trouble."""
    times: int = 1
